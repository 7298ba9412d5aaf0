"""Signing in and out: cookies, forms, and whose request one is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web

from controller.api.problems import BodyLate, InvalidRequest
from controller.contracts.errors import NotAllowed
from controller.page.responses import see_other
from controller.page.sessions import Session, Sessions

FORM_TYPE: Final = "application/x-www-form-urlencoded"
MAX_FORM_BYTES: Final = 4096
FORM_TIMEOUT_S: Final = 30.0
SIGN_IN: Final = "/sign-in"
START: Final = "/"
MAX_ADDRESS: Final = 1000


class Door:
    """Sessions by the cookies of browsers."""

    def __init__(self, sessions: Sessions, *, tls: bool) -> None:
        self._sessions = sessions
        self._tls = tls

    def session(self, request: web.Request) -> Session | None:
        """Return the session of a request; None without one."""
        id_ = request.cookies.get(self._name(request))
        return self._sessions.find(id_) if id_ else None

    def begin(self, request: web.Request, token: str, to: str) -> web.Response:
        """Return the answer to who has signed in."""
        self.forget(request)  # an older one of this browser
        answer = see_other(to)
        answer.set_cookie(
            self._name(request),
            self._sessions.begin(token),
            httponly=True,
            secure=self._tls,
            samesite="Strict",
            path="/",
        )
        return answer

    def end(self, request: web.Request) -> web.Response:
        """Return the answer to who has signed out."""
        self.forget(request)
        answer = see_other(SIGN_IN)
        name = self._name(request)
        answer.del_cookie(name, path="/", secure=self._tls, httponly=True, samesite="Strict")
        return answer

    def forget(self, request: web.Request) -> None:
        """End the session of a request, if it has one.

        The cookie stays: an answer that is late would delete that of a newer session.
        """
        if id_ := request.cookies.get(self._name(request)):
            self._sessions.end(id_)

    def _name(self, request: web.Request) -> str:
        # Cookies of a host go to all its ports, where other farms may be. With the prefix, a
        # browser takes the cookie from this very host only, and over TLS.
        at = request.transport.get_extra_info("sockname") if request.transport else None
        return f"{'__Host-' if self._tls else ''}benchfarm-{at[1] if at else 0}"


def own_address(given: str) -> str:
    """Return an address of this server to go to; the start for any other."""
    fits = len(given) <= MAX_ADDRESS and given.isascii() and given.isprintable()
    local = given.startswith("/") and not given.startswith("//") and "\\" not in given
    return given if fits and local else START


def require_same_origin(request: web.Request) -> None:
    """Raise NotAllowed for a form that a browser says to be of another site."""
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    origin = request.headers.get("Origin")
    same = origin is None or _authority_of(origin) == request.host
    if site not in ("same-origin", "none") or not same:
        seen = "the form is of another site"
        raise NotAllowed("take the form", seen, "Open the page itself, and do it there.")


def _authority_of(origin: str) -> str | None:
    """Return the host and port of an origin; None if it is malformed."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def require_own_form(session: Session | None, form: Mapping[str, str]) -> Session:
    """Return the session whose page a form comes from; raises NotAllowed."""
    if session is None or not session.wrote(form.get("form_key", "")):
        seen = "it is not of your session's pages"
        raise NotAllowed("take the form", seen, "Load the page again, and repeat it.")
    return session


async def read_form(request: web.Request, timeout_s: float = FORM_TIMEOUT_S) -> dict[str, str]:
    """Return the fields of a form; raises NotAllowed, InvalidRequest, BodyLate."""
    require_same_origin(request)
    plain = request.headers.get("Content-Encoding", "identity") == "identity"
    if request.content_type != FORM_TYPE or not plain:
        raise InvalidRequest("read the form", f"it is not plain {FORM_TYPE}", "Use the page.")
    too_large = InvalidRequest("read the form", "it is too large", "Use the page.")
    if (request.content_length or 0) > MAX_FORM_BYTES:
        raise too_large
    try:
        async with asyncio.timeout(timeout_s):
            body = await request.read()
    except TimeoutError as late:
        seen = f"it did not arrive within {timeout_s:.0f} s"
        raise BodyLate("read the form", seen, "Send it again.") from late
    except web.HTTPRequestEntityTooLarge as refused:
        raise too_large from refused
    if len(body) > MAX_FORM_BYTES:  # it came in pieces
        raise too_large
    # Forms are UTF-8, whatever their type says: <https://url.spec.whatwg.org/#urlencoded-parsing>.
    return dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
