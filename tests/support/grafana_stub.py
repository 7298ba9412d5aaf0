"""A stand-in for Grafana's HTTP interface: the few calls that `dashboards push` makes, strictly.

It knows no other call, no other field, no other right, and keeps what it is given. What it answers
follows Grafana's documentation of each call. It is no Grafana: it draws nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

EDITOR, ADMIN, VIEWER = "editor-token", "admin-token", "viewer-token"
"""Tokens; each has the role of its name."""
USER = ("somebody", "secret-password")
"""A user with the role Admin."""
_ROLES = {VIEWER: 0, EDITOR: 1, ADMIN: 2}
_ROLE = web.RequestKey("role", int)
_DURATION = re.compile(r"\d+[smhd]")
_UID = re.compile(r"[A-Za-z0-9_-]{1,40}")

_DASHBOARD_BODY = {"dashboard", "folderUid", "message", "overwrite"}
_SOURCE_BODY = {"uid", "name", "type", "access", "url", "jsonData"}
_SOURCE_OWN = {"id", "orgId", "readOnly", "version"}
_GROUP_BODY = {"title", "folderUid", "interval", "rules"}
_RULE_BODY = {
    *("uid", "title", "ruleGroup", "folderUID", "orgID", "for", "condition", "data", "labels"),
    *("annotations", "noDataState", "execErrState"),
}


@dataclass
class GrafanaStub:
    """A server's state, and all that was written to it."""

    release: str = "11.6.0"
    url: str = ""
    folders: dict[str, Json] = field(default_factory=dict)
    sources: dict[str, Json] = field(default_factory=dict)
    dashboards: dict[str, list[Json]] = field(default_factory=dict)
    """Uid → its versions, oldest first: `dashboard`, `message`, `folderUid`."""
    groups: dict[tuple[str, str], Json] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    """Method and path of every call that changed something."""
    unknown: list[str] = field(default_factory=list)
    """Calls that Grafana would not understand."""
    provisioned: set[str] = field(default_factory=set)
    before_save: Callable[[], None] | None = None
    """Called once, before a dashboard is saved: what happens between look and save."""

    def titles(self) -> dict[str, str]:
        """Return the title of every dashboard's newest version, by uid."""
        return {uid: str(it[-1]["dashboard"]["title"]) for uid, it in self.dashboards.items()}

    def save_as_user(self, uid: str, message: str = "", **changes: object) -> None:
        """Do what a user's Save does."""
        newest = self.dashboards[uid][-1]
        self._append(uid, {**newest["dashboard"], **changes}, newest["folderUid"], message)

    def _append(self, uid: str, dashboard: Json, folder: str, message: str) -> int:
        versions = self.dashboards.setdefault(uid, [])
        versions.append({"dashboard": dashboard, "folderUid": folder, "message": message})
        return len(versions)

    # --- calls, each (what it needs, what it does) ----------------------------------------------

    def app(self) -> web.Application:
        """Return the web application; everything it does not know is noted in `unknown`."""
        app = web.Application(middlewares=[self._middleware])
        app.add_routes(
            [
                web.get("/api/health", self.health),
                web.get("/api/frontend/settings", self.settings),
                web.get("/api/folders/{uid}", self.get_folder),
                web.post("/api/folders", self.post_folder),
                web.get("/api/datasources/uid/{uid}", self.get_source),
                web.post("/api/datasources", self.post_source),
                web.put("/api/datasources/uid/{uid}", self.put_source),
                web.get("/api/dashboards/uid/{uid}", self.get_dashboard),
                web.get("/api/dashboards/uid/{uid}/versions", self.get_versions),
                web.post("/api/dashboards/db", self.post_dashboard),
                web.get(_GROUP_PATH, self.get_group),
                web.put(_GROUP_PATH, self.put_group),
            ]
        )
        return app

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.path != "/api/health":
                self._sign_in(request)
            answer = await handler(request)
        except _Refused as refused:
            return _answer(refused.status, refused.body)
        except web.HTTPException as error:
            self.unknown.append(f"{request.method} {request.path}")
            return _answer(error.status, {"message": "Not found"})
        if request.method != "GET":
            self.writes.append(f"{request.method} {request.path}")
        return answer

    def _sign_in(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "")
        by_name = base64.b64encode(":".join(USER).encode()).decode()
        roles = {f"Bearer {token}": role for token, role in _ROLES.items()}
        roles[f"Basic {by_name}"] = 2
        if given not in roles:
            raise _Refused(401, "Invalid API key")
        request[_ROLE] = roles[given]

    async def health(self, _: web.Request) -> web.Response:
        return _answer(200, {"commit": "0", "database": "ok", "version": self.release})

    async def settings(self, _: web.Request) -> web.Response:
        return _answer(200, {"buildInfo": {"version": self.release, "edition": "Open Source"}})

    async def get_folder(self, request: web.Request) -> web.Response:
        _require(request, "viewer")
        return _answer(200, _found(self.folders, request.match_info["uid"], "folder"))

    async def post_folder(self, request: web.Request) -> web.Response:
        _require(request, "editor")
        body = await _body(request, {"uid", "title"}, {"title"})
        if body["uid"] in self.folders:
            raise _Refused(409, "a folder with that UID already exists")
        self.folders[body["uid"]] = {"id": len(self.folders) + 1, **body}
        return _answer(200, self.folders[body["uid"]])

    async def get_source(self, request: web.Request) -> web.Response:
        _require(request, "admin")
        return _answer(200, _found(self.sources, request.match_info["uid"], "Data source"))

    async def post_source(self, request: web.Request) -> web.Response:
        _require(request, "admin")
        body = await _body(request, _SOURCE_BODY, _SOURCE_BODY)
        if any(body["name"] == source["name"] for source in self.sources.values()):
            raise _Refused(409, "data source with the same name already exists")
        own = {"id": len(self.sources) + 1, "orgId": 1, "readOnly": False, "version": 1}
        self.sources[body["uid"]] = own | body
        return _answer(200, {"datasource": own | body, "message": "Datasource added"})

    async def put_source(self, request: web.Request) -> web.Response:
        _require(request, "admin")
        stored = _found(self.sources, request.match_info["uid"], "Data source")
        body = await _body(request, _SOURCE_BODY | _SOURCE_OWN, _SOURCE_BODY)
        self.sources[body["uid"]] = stored | body | {"version": stored["version"] + 1}
        return _answer(200, {"message": "Datasource updated"})

    async def get_dashboard(self, request: web.Request) -> web.Response:
        _require(request, "viewer")
        uid = request.match_info["uid"]
        versions = _found(self.dashboards, uid, "Dashboard")
        # A newer Grafana brings what was saved up to date when it is read.
        read = {**versions[-1]["dashboard"], "id": 7, "version": len(versions), "preload": False}
        meta = {"folderUid": versions[-1]["folderUid"], "provisioned": uid in self.provisioned}
        return _answer(200, {"dashboard": read, "meta": meta})

    async def get_versions(self, request: web.Request) -> web.Response:
        _require(request, "editor")
        stored = _found(self.dashboards, request.match_info["uid"], "Dashboard")
        listed = [
            {"version": number, "message": it["message"], "createdBy": "somebody"}
            for number, it in reversed(list(enumerate(stored, 1)))
        ]
        as_mapping = int(self.release.partition(".")[0]) >= 12
        return _answer(200, {"continueToken": "", "versions": listed} if as_mapping else listed)

    async def post_dashboard(self, request: web.Request) -> web.Response:
        _require(request, "editor")
        body = await _body(request, _DASHBOARD_BODY, _DASHBOARD_BODY)
        if call := self.before_save:
            self.before_save = None
            call()
        dashboard = body["dashboard"]
        self._check_dashboard(dashboard, body)
        kept = {name: it for name, it in dashboard.items() if name not in ("id", "version")}
        version = self._append(dashboard["uid"], kept, body["folderUid"], body["message"])
        return _answer(200, {"status": "success", "uid": dashboard["uid"], "version": version})

    def _check_dashboard(self, dashboard: Json, body: Json) -> None:
        uid = dashboard.get("uid", "")
        if not _UID.fullmatch(uid) or not dashboard.get("title"):
            raise _Refused(400, "bad dashboard data")
        if body["folderUid"] not in self.folders:
            raise _Refused(400, "folder not found")
        if uid in self.provisioned:
            raise _Refused(400, "Cannot save provisioned dashboard")
        if len(self.dashboards.get(uid, ())) != dashboard.get("version", 0):
            seen = "The dashboard has been changed by someone else"
            raise _Refused(412, seen, "version-mismatch")

    async def get_group(self, request: web.Request) -> web.Response:
        _require(request, "admin")
        group = _found(self.groups, _group_key(request), "rule group")
        return _answer(200, group)

    async def put_group(self, request: web.Request) -> web.Response:
        _require(request, "admin")
        key = _group_key(request)
        body = await _body(request, _GROUP_BODY, _GROUP_BODY)
        if body["folderUid"] not in self.folders or key != (body["folderUid"], body["title"]):
            raise _Refused(400, "folder or group of the body is another")
        for rule in body["rules"]:
            self._check_rule(rule, body)
        self.groups[key] = deepcopy(body)
        for number, rule in enumerate(self.groups[key]["rules"]):
            rule |= {"id": number + 1, "updated": "2026-03-02T14:07:31Z", "provenance": "api"}
            for query in rule["data"]:
                query["model"] |= {"intervalMs": 1000, "maxDataPoints": 43200}
        return _answer(202, body)

    def _check_rule(self, rule: Json, group: Json) -> None:
        _check_fields(rule, _RULE_BODY, _RULE_BODY)
        queries = {query["refId"] for query in rule["data"]}
        sources = {query["datasourceUid"] for query in rule["data"]} - {"__expr__"}
        right = (
            _UID.fullmatch(rule["uid"])
            and rule["ruleGroup"] == group["title"]
            and rule["folderUID"] == group["folderUid"]
            and rule["condition"] in queries
            and _DURATION.fullmatch(rule["for"])
            and sources <= self.sources.keys()
        )
        if not right:
            raise _Refused(400, f"invalid alert rule {rule['title']}")


_GROUP_PATH = "/api/v1/provisioning/folder/{folder}/rule-groups/{group}"


class _Refused(Exception):
    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.status, self.body = status, {"message": message, "status": reason}


def _answer(status: int, body: object) -> web.Response:
    return web.json_response(body, status=status)


def _require(request: web.Request, role: str) -> None:
    if request[_ROLE] < ["viewer", "editor", "admin"].index(role):
        raise _Refused(403, "You'll need additional permissions to perform this action")


def _found(stored: dict[Any, Any], key: object, what: str) -> Any:  # noqa: ANN401 - as stored
    if key not in stored:
        raise _Refused(404, f"{what} not found")
    return stored[key]


def _group_key(request: web.Request) -> tuple[str, str]:
    return request.match_info["folder"], request.match_info["group"]


async def _body(request: web.Request, known: set[str], needed: set[str]) -> Json:
    try:
        body: Json = json.loads(await request.text())
    except ValueError:
        raise _Refused(400, "bad request data") from None
    _check_fields(body, known, needed)
    return body


def _check_fields(body: Json, known: set[str], needed: set[str]) -> None:
    if unknown := sorted(body.keys() - known):
        raise _Refused(400, f"unknown field {', '.join(unknown)}")
    if missing := sorted(needed - body.keys()):
        raise _Refused(400, f"missing field {', '.join(missing)}")


@contextmanager
def running(stub: GrafanaStub) -> Iterator[GrafanaStub]:
    """Serve a stub on a free loopback port, from an event loop in a thread."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(stub.app(), access_log=None)

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result()
        stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield stub
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
