"""The page for the team: its addresses, who may open them, and what each shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from aiohttp import web

from controller.api import writes
from controller.api.front import Backing
from controller.api.guard import CALLER
from controller.api.identity import Caller, require
from controller.api.problems import Problem, Unauthenticated
from controller.api.reads import Reading
from controller.contracts.records import Scope
from controller.page.doors import (
    SIGN_IN,
    START,
    Door,
    own_address,
    read_form,
    require_own_form,
)
from controller.page.kept import Kept
from controller.page.pages import ASKING, Make, MakePart, Pages
from controller.page.responses import (
    LAYOUT,
    STATIC,
    View,
    Visitor,
    error,
    html,
    html_of,
    part_of,
    see_other,
    static_answer,
)
from controller.page.run_files import CONTENT
from controller.page.sessions import Sessions
from controller.platform.terminal import LONGEST

API: Final = "/api/"
SESSION: Final = "/session"
OPEN: Final = (SIGN_IN, SESSION)
TO: Final = web.RequestKey("page_to", str)
"""Where the form of a request to sign in leads."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
InTurn = Callable[[Callable[[Reading], str]], Awaitable[str]]


class Site:
    """The page; implements controller.api.front.Front."""

    def __init__(
        self, *, tls: bool, sessions: Sessions | None = None, kept: Kept | None = None
    ) -> None:
        self._door = Door(sessions or Sessions(), tls=tls)
        self._pages = Pages(kept or Kept())

    # --- controller.api.front.Front ------------------------------------------------------------

    def routes(self, backing: Backing) -> Sequence[web.RouteDef]:
        """See Front."""
        self._backing = backing
        pages, parts = self._pages.by_address, self._pages.parts_by_address
        return [
            *(web.get(path, self._page(make), allow_head=False) for path, make in pages.items()),
            *(
                web.get(path, self._part(make, asks=path in ASKING), allow_head=False)
                for path, make in parts.items()
            ),
            web.get(SIGN_IN, self._sign_in, allow_head=False),
            web.post(SIGN_IN, self._signed_in),
            web.post("/sign-out", self._sign_out),
            web.get(SESSION, self._session, allow_head=False),
            web.get(f"{STATIC}/{{digest}}/{{name}}", self._static, allow_head=False),
            web.get(f"{CONTENT}/{{sha256}}/{{name}}", self._content, allow_head=False),
            web.post("/sweeps/{sweep_id}/cancel", self._cancel),
        ]

    def serves(self, request: web.Request) -> bool:
        """See Front."""
        return not request.path.startswith(API)

    def is_open(self, request: web.Request) -> bool:
        """See Front."""
        return request.path in OPEN or request.path.startswith(f"{STATIC}/")

    def authorization(self, request: web.Request) -> str:
        """See Front; raises Unauthenticated for who has not signed in, which is no guess."""
        session = self._door.session(request)
        if session is None:
            raise Unauthenticated("answer the request", "nobody has signed in", "Sign in.")
        return f"Bearer {session.token}"

    def refused(
        self, request: web.Request, said: Problem, headers: Mapping[str, str]
    ) -> web.Response:
        """See Front."""
        if said.status == 401 and request.path != SIGN_IN:
            self._door.forget(request)  # its token is not valid any more
            to = request.path_qs if request.method == "GET" else START
            return see_other(f"{SIGN_IN}?{urlencode({'to': own_address(to)})}")
        own = {name: value for name, value in headers.items() if name != "WWW-Authenticate"}
        if said.status == 401:
            return error(self._form(request.get(TO, START), "This token is not valid."), 401, own)
        view = View(said.title, "problem.html", {"said": said})
        return error(html_of(view, None), said.status, own)

    # --- who looks -----------------------------------------------------------------------------

    def _visitor(self, request: web.Request) -> Visitor:
        caller, session = request[CALLER], self._door.session(request)
        return Visitor(caller.name, caller.scope, session.form_key if session else "")

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        to = own_address(request.query.get("to", START))
        return html(request, self._form(to, ""))

    def _form(self, to: str, wrong: str) -> str:
        context = {"layout": LAYOUT, "title": "Sign in", "description": "", "contents": ()}
        more = {"figures": {}, "place": "", "to": to, "wrong": wrong}
        return part_of(
            "sign_in.html", None, {**context, **more, "scripts": ("theme.js", "sign_in.js")}
        )

    async def _signed_in(self, request: web.Request) -> web.StreamResponse:
        form = await read_form(request)
        request[TO] = to = own_address(form.get("to", START))
        token = form.get("token", "").strip()
        await self._backing.caller(request, f"Bearer {token}")
        return self._door.begin(request, token, to)

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        require_own_form(self._door.session(request), await read_form(request))
        return self._door.end(request)

    async def _session(self, request: web.Request) -> web.StreamResponse:
        is_there = self._door.session(request) is not None
        return web.json_response({"signed_in": is_there}, headers={"Cache-Control": "no-store"})

    async def _content(self, request: web.Request) -> web.StreamResponse:
        return await self._backing.content(request)

    async def _static(self, request: web.Request) -> web.StreamResponse:
        return static_answer(request.path)

    # --- pages ---------------------------------------------------------------------------------

    def _page(self, make: Make) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            visitor = self._visitor(request)

            def work(farm: Reading) -> tuple[str, bool]:
                view = make(farm, request, visitor)
                return html_of(view, visitor), bool(view.charts)

            text, charts = await self._backing.read(work)
            return html(request, text, charts=charts)

        return handle

    def _part(self, make: MakePart, *, asks: bool) -> Handler:
        in_turn: InTurn = self._backing.ask if asks else self._backing.read

        async def handle(request: web.Request) -> web.StreamResponse:
            visitor = self._visitor(request)

            def work(farm: Reading) -> str:
                template, context = make(farm, request, visitor)
                return part_of(template, visitor, context)

            return html(request, await in_turn(work))

        return handle

    async def _cancel(self, request: web.Request) -> web.StreamResponse:
        session = require_own_form(self._door.session(request), await read_form(request))
        caller, ids = request[CALLER], dict(request.match_info)
        require(caller, Scope.SUBMITTER, f"cancel sweep {ids['sweep_id'][:LONGEST]}")
        whose = Caller(caller.name, caller.scope, session.token)
        count = await self._backing.write(lambda farm: writes.cancel(farm, whose, None, ids))
        there = quote(ids["sweep_id"], safe="")
        return see_other(f"/sweeps/{there}?{urlencode({'cancelled': count.runs})}")
