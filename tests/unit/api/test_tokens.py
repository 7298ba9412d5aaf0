"""Tokens of the API: what each scope allows, and what is no token at all."""

from __future__ import annotations

import asyncio
import hmac
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest

from controller.api.identity import Caller, caller_of, require
from controller.api.options import ApiOptions
from controller.api.problems import Unauthenticated
from controller.api.rates import Rate
from controller.api.routes import PREFIX, READS, WRITES
from controller.api.server import serve_api
from controller.contracts.administration import NewToken, NewTokenRequest
from controller.contracts.errors import NotAllowed, UserError
from controller.contracts.records import Scope, Token
from controller.metrics.exporter import LOOPBACK
from controller.metrics.web_server import WebServer
from controller.platform.atomic import write_private
from controller.runtime.access import Access
from controller.runtime.api import ApiOptions as ControllerOptions
from controller.runtime.api import serve_api as serve_controller
from controller.runtime.api import url_of
from controller.runtime.client import TOKEN_VARIABLE, FarmClient
from controller.runtime.feed import Feed
from controller.runtime.home import Endpoint, Home
from controller.runtime.options import URL_VARIABLE
from controller.store import tables
from controller.store.sealing import seal_of_row
from controller.store.sqlite import SqliteStore
from tests.support import builders
from tests.support.api import (
    ADMIN_TOKEN,
    SECRETS,
    UNLIMITED,
    VERSION,
    Described,
    Served,
    digest_of,
    prepared,
    served,
)
from tests.support.farm import FarmBox

VIEWER = SECRETS[Scope.VIEWER]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Served]:
    with served(prepared(tmp_path / "home", sweeps=1)) as served_api:
        yield served_api


WRONG = [
    None,
    "",
    "Bearer",
    VIEWER,
    f"Basic {VIEWER}",
    f"bearer {VIEWER}",
    f"Bearer  {VIEWER}",
    f"Bearer {VIEWER}x",
    f"Bearer {VIEWER[:-1]}",
    f"Bearer {VIEWER[1:]}",
    f"Bearer {VIEWER.upper()}",
    f"Bearer {digest_of(VIEWER)}",
    f"Bearer {'0' * 64}",
    f"Bearer {VIEWER * 5}",
    "Bearer \xff\xfe",
]


@pytest.mark.parametrize("said", WRONG)
def test_what_is_no_token_opens_nothing(api: Served, said: str | None) -> None:
    headers: dict[bytes, bytes] = {}
    if said is not None:
        headers[b"Authorization"] = said.encode("latin-1")
    described = Described()
    for route in READS:
        answer = api.client.get(f"{api.url}{PREFIX}{route.path}", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="benchfarm"'
        assert described.objection("GET", route.path, answer) == ""
        assert VIEWER[:8] not in answer.text
    for write in WRITES:
        answer = api.client.request(write.method, f"{api.url}{PREFIX}{write.path}", headers=headers)
        assert described.objection(write.method, write.path, answer) == ""
        assert answer.status_code == 401


@pytest.mark.parametrize("scope", Scope)
def test_every_scope_reads(api: Served, scope: Scope) -> None:
    assert api.get("/results", scope).status_code == 200


def test_the_farms_own_token_is_an_administrators(api: Served) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    assert api.client.get(f"{api.url}{PREFIX}/sweeps", headers=headers).status_code == 200
    write_private(api.home.api_token, "another" * 9)
    assert api.client.get(f"{api.url}{PREFIX}/sweeps", headers=headers).status_code == 401


@pytest.mark.parametrize("content", ["", " \n"])
def test_an_empty_file_of_the_farms_own_token_opens_nothing(api: Served, content: str) -> None:
    write_private(api.home.api_token, content)
    for said in ("Bearer ", f"Bearer {content}", f"Bearer {digest_of('')}"):
        answer = api.client.get(
            f"{api.url}{PREFIX}/sweeps", headers={"Authorization": said.strip()}
        )
        assert answer.status_code == 401


def test_a_file_that_others_can_read_is_no_token(api: Served) -> None:
    api.home.api_token.chmod(0o644)
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    assert api.client.get(f"{api.url}{PREFIX}/sweeps", headers=headers).status_code == 401


def test_a_fault_of_the_head_does_not_say_that_a_token_is_wrong(api: Served) -> None:
    """The administrator was told that the token is not valid, and signed out of the page."""
    api.home.api_token.unlink()
    api.home.api_token.mkdir()  # no file that can be read, as on a failing disk
    for said, status in ((ADMIN_TOKEN, 503), (SECRETS[Scope.VIEWER], 200)):
        headers = {"Authorization": f"Bearer {said}"}
        assert api.client.get(f"{api.url}{PREFIX}/sweeps", headers=headers).status_code == status
    api.home.api_token.rmdir()
    write_private(api.home.api_token, ADMIN_TOKEN)
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    assert api.client.get(f"{api.url}{PREFIX}/sweeps", headers=headers).status_code == 200


def test_a_revoked_token_opens_nothing_from_the_next_request_on(api: Served) -> None:
    assert api.get("/sweeps").status_code == 200
    token = Token(name="viewer", digest=digest_of(VIEWER), created_at=1.0, scope=Scope.VIEWER)
    with closing(SqliteStore.open(api.home.store)) as store:
        store.save_token(token.model_copy(update={"revoked_at": 2.0}))
        assert api.get("/sweeps").status_code == 401
        assert api.get("/sweeps", Scope.SUBMITTER).status_code == 200
        store.save_token(token)
        assert api.get("/sweeps").status_code == 200


def test_a_token_whose_record_was_changed_opens_nothing(api: Served) -> None:
    with closing(sqlite3.connect(api.home.store)) as connection, connection:
        connection.execute("UPDATE tokens SET scope = 'administrator' WHERE name = 'viewer'")
    assert api.get("/sweeps").status_code == 401
    assert api.get("/sweeps", Scope.SUBMITTER).status_code == 200


def test_a_store_that_takes_the_place_of_another_is_read(api: Served, tmp_path: Path) -> None:
    assert api.get("/sweeps").json()["items"] != []
    other = prepared(tmp_path / "other", sweeps=0)
    for end in ("-wal", "-shm"):
        Path(f"{api.home.store}{end}").unlink(missing_ok=True)
    other.store.replace(api.home.store)
    assert api.get("/sweeps").json()["items"] == []


def spoil(home: Home, kind: str) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{home.store}{end}").unlink(missing_ok=True)
    if kind != "gone":
        home.store.write_bytes(b"" if kind == "empty" else b"no database" * 1000)


@pytest.mark.parametrize("kind", ["gone", "empty", "another's"])
def test_a_store_that_is_lost_while_it_is_served_is_503_and_names_no_file(
    api: Served, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    described = Described()
    assert api.get("/sweeps").status_code == 200
    spoil(api.home, kind)
    for scope in (Scope.VIEWER, None):
        for route in READS:
            answer = api.get(route.path, scope)
            assert answer.status_code == 503
            assert described.objection("GET", route.path, answer) == ""
            assert str(api.home.path) not in answer.text
    (line,) = [one for one in caplog.messages if str(api.home.store) in one]
    assert "the head's files cannot be read" in line


def test_who_guesses_tokens_waits_also_while_the_store_cannot_be_read(tmp_path: Path) -> None:
    strict = ApiOptions(LOOPBACK, 0, rate=UNLIMITED, strangers=Rate(0.1, 2), clock=lambda: 0.0)
    with served(prepared(tmp_path / "home", sweeps=1), strict) as api:
        assert [api.get("/agents", None).status_code for _ in range(3)] == [401, 401, 429]
        assert api.get("/agents").status_code == 200
    with served(prepared(tmp_path / "other", sweeps=1), strict) as api:
        assert api.get("/agents").status_code == 200
        spoil(api.home, "another's")
        statuses = [api.get("/agents", None).status_code for _ in range(5)]
        assert statuses == [503, 503, 503, 429, 429], "the third tries whether it can be read again"


def test_a_fault_of_the_farms_own_token_turns_away_nobody_else(tmp_path: Path) -> None:
    """Behind a proxy, all share the address that the administrator's requests made a stranger's."""
    strict = ApiOptions(LOOPBACK, 0, rate=UNLIMITED, strangers=Rate(0.1, 2), clock=lambda: 0.0)
    with served(prepared(tmp_path / "home", sweeps=1), strict) as api:
        api.home.api_token.unlink()
        api.home.api_token.mkdir()
        own = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        address = f"{api.url}{PREFIX}/agents"
        asked = [api.client.get(address, headers=own).status_code for _ in range(4)]
        assert asked == [503, 503, 429, 429]
        assert [api.get("/agents").status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("needed", Scope)
def test_a_scope_allows_itself_and_what_is_below(scope: Scope, needed: Scope) -> None:
    order = [Scope.VIEWER, Scope.SUBMITTER, Scope.ADMINISTRATOR]
    caller = Caller("ann", scope, "secret")
    assert "secret" not in repr(caller)
    if order.index(scope) >= order.index(needed):
        require(caller, needed, "submit")
    else:
        with pytest.raises(NotAllowed, match=f"ann is of scope {scope}"):
            require(caller, needed, "submit")


def test_secrets_are_compared_by_digest_and_in_constant_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of a secret meets what is stored but through SHA-256 and compare_digest."""
    compared: list[tuple[object, object]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    home = prepared(tmp_path / "home", sweeps=0)
    with closing(SqliteStore.open_reader(home.store)) as store:
        assert caller_of(f"Bearer {VIEWER}", store, home).name == "viewer"
        with pytest.raises(Unauthenticated):
            caller_of(f"Bearer {VIEWER[:-1]}0", store, home)
    assert len(compared) >= 2 + len(SECRETS)
    assert all(len(str(one)) == len(str(other)) == 64 for one, other in compared)
    assert not any(VIEWER in pair for pair in compared)


def test_a_token_from_before_there_were_scopes_is_a_submitters(tmp_path: Path) -> None:
    path, secret = tmp_path / "store.sqlite", "0b" * 32
    row = {"name": "old", "digest": digest_of(secret), "created_at": 1.0}
    whole = {**row, "revoked_at": None, "scope": None}
    SqliteStore.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO tokens (name, digest, created_at, checksum) VALUES (?, ?, ?, ?)",
            [*row.values(), seal_of_row(tables.tokens, whole)],
        )
    with closing(SqliteStore.open(path)) as store:
        (kept,) = store.tokens()
        assert kept.scope is Scope.SUBMITTER
        tokens = Access(store, ADMIN_TOKEN, lambda: 2.0)
        assert tokens.caller(f"Bearer {secret}") == "old"
        assert tokens.submits("old")
        store.save_token(kept)
        assert store.tokens() == [kept]
        assert store.damage() == []


@asynccontextmanager
async def farm_and_api(folder: Path) -> AsyncIterator[tuple[FarmBox, Access, str, Home]]:
    """Serve a controller and the API of one home."""
    folder.mkdir(mode=0o700)
    home, box, feed = Home(folder), FarmBox(folder / "store.sqlite"), Feed()
    box.farm.register(builders.registration())
    tokens = Access(box.store, ADMIN_TOKEN, box.clock)
    inner = await serve_controller(
        box.farm, feed, list, ControllerOptions(access=tokens, metrics_token="4567", port=0)
    )
    endpoint = Endpoint(url=url_of(inner), version=VERSION, pid=1)
    write_private(home.endpoint_file, endpoint.model_dump_json())
    write_private(home.api_token, ADMIN_TOKEN)
    options = ApiOptions(LOOPBACK, 0, rate=UNLIMITED, strangers=UNLIMITED)
    outer: WebServer = await serve_api(home, VERSION, options)
    try:
        yield box, tokens, f"http://{LOOPBACK}:{outer.address[1]}{PREFIX}", home
    finally:
        await outer.cleanup()
        await inner.cleanup()
        box.close()


def bearing(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def test_a_submitter_submits_and_cancels_own_sweeps_over_the_api(tmp_path: Path) -> None:
    described = Described()
    body = {"sweep": builders.sweep(repeats=2).model_dump(mode="json")}
    async with farm_and_api(tmp_path / "home") as (box, tokens, url, _), httpx.AsyncClient() as web:
        ann, ben = tokens.create("ann").token, tokens.create("ben").token
        eve = tokens.create("eve", Scope.VIEWER).token
        zoe = tokens.create("zoe", Scope.ADMINISTRATOR).token
        refused = await web.post(f"{url}/sweeps", json=body, headers=bearing(eve))
        assert (refused.status_code, described.objection("POST", "/sweeps", refused)) == (403, "")
        assert box.store.sweeps() == []
        made = await web.post(f"{url}/sweeps", json=body, headers=bearing(ann))
        assert (made.status_code, described.objection("POST", "/sweeps", made)) == (200, "")
        sweep_id = made.json()["sweep_id"]
        assert box.store.sweeps()[0].user == "ann"
        again = await web.post(f"{url}/sweeps", json=body, headers=bearing(ann))
        assert (again.json()["new_runs"], again.json()["known_runs"]) == (0, 2)
        for secret, path, status in (
            (eve, sweep_id, 403),
            (ben, sweep_id, 403),
            (ann, sweep_id[:-1], 404),
            (ann, "none", 404),
            (ann, sweep_id, 200),
            (zoe, sweep_id, 200),
        ):
            answer = await web.delete(f"{url}/sweeps/{path}", headers=bearing(secret))
            assert (answer.status_code, path) == (status, path)
            assert described.objection("DELETE", "/sweeps/{sweep_id}", answer) == ""
        assert (await web.get(f"{url}/sweeps/{sweep_id}", headers=bearing(eve))).json()["tally"][
            "runs"
        ]["cancelled"] == 2
        unknown = {"sweep": {**body["sweep"], "workload": ["nothing"]}}
        wrong = await web.post(f"{url}/sweeps", json=unknown, headers=bearing(ann))
        assert (wrong.status_code, described.objection("POST", "/sweeps", wrong)) == (422, "")
        tokens.revoke("ann")
        late = await web.post(f"{url}/sweeps", json=body, headers=bearing(ann))
        assert late.status_code == 401


async def test_without_a_controller_reading_works_and_writing_says_so(tmp_path: Path) -> None:
    body = {"sweep": builders.sweep().model_dump(mode="json")}
    described = Described()
    home = prepared(tmp_path / "home", sweeps=1)
    server = await serve_api(home, VERSION, ApiOptions(LOOPBACK, 0))
    url = f"http://{LOOPBACK}:{server.address[1]}{PREFIX}"
    try:
        async with httpx.AsyncClient(headers=bearing(SECRETS[Scope.SUBMITTER])) as web:
            assert (await web.get(f"{url}/results")).status_code == 200
            answer = await web.post(f"{url}/sweeps", json=body)
            assert (answer.status_code, described.objection("POST", "/sweeps", answer)) == (503, "")
            assert str(tmp_path) not in answer.text
    finally:
        await server.cleanup()


async def test_readers_do_not_wait_for_a_controller_that_is_stuck(tmp_path: Path) -> None:
    asked, ended = asyncio.Semaphore(0), asyncio.Event()

    async def never_answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.release()
        await ended.wait()
        writer.close()

    body = {"sweep": builders.sweep().model_dump(mode="json")}
    home = prepared(tmp_path / "home", sweeps=1)
    stuck = await asyncio.start_server(never_answer, LOOPBACK)
    address = "http://{}:{}".format(*stuck.sockets[0].getsockname())
    endpoint = Endpoint(url=address, version=VERSION, pid=1)
    write_private(home.endpoint_file, endpoint.model_dump_json())
    server = await serve_api(home, VERSION, ApiOptions(LOOPBACK, 0))
    url = f"http://{LOOPBACK}:{server.address[1]}{PREFIX}"
    try:
        async with httpx.AsyncClient(headers=bearing(SECRETS[Scope.SUBMITTER]), timeout=60) as web:
            posts = [asyncio.create_task(web.post(f"{url}/sweeps", json=body)) for _ in range(8)]
            for _ in range(2):
                await asked.acquire()
            assert (await web.get(f"{url}/sweeps")).status_code == 200
            assert not any(post.done() for post in posts)
            ended.set()
            stuck.close()
            assert {post.status_code for post in await asyncio.gather(*posts)} == {503}
    finally:
        stuck.close()
        await server.cleanup()


async def test_scopes_hold_at_the_controller_too(tmp_path: Path) -> None:
    async with farm_and_api(tmp_path / "home") as (box, tokens, _, home):
        url = home.endpoint().url

        def client(secret: str) -> FarmClient:
            return FarmClient(Home(tmp_path), {URL_VARIABLE: url, TOKEN_VARIABLE: secret})

        eve = client(tokens.create("eve", Scope.VIEWER).token)
        zoe = client(tokens.create("zoe", Scope.ADMINISTRATOR).token)
        with pytest.raises(NotAllowed, match="the token of eve only reads"):
            await asyncio.to_thread(eve.submit, builders.sweep())
        asked = NewTokenRequest(name="max", scope=Scope.VIEWER)
        with pytest.raises(NotAllowed):
            await asyncio.to_thread(eve.administer, NewToken, "tokens", asked)
        made = await asyncio.to_thread(zoe.administer, NewToken, "tokens", asked)
        assert tokens.caller(f"Bearer {made.token}") == "max"
        assert not tokens.submits("max")
        await asyncio.to_thread(zoe.submit, builders.sweep())
        assert box.store.sweeps()[0].user == "admin"
        tokens.revoke("zoe")
        with pytest.raises(UserError, match="no valid token"):
            await asyncio.to_thread(zoe.submit, builders.sweep())
