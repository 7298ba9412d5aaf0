"""Who may ask the controller what, and where it listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from controller.contracts.administration import ADMINISTRATION, HELD_UP
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import StoreUnavailable, UserError
from controller.contracts.records import SweepRecord, SweepTally
from controller.contracts.run import Run
from controller.metrics.discovery import TARGETS_PATH
from controller.metrics.exporter import LOOPBACK, listening
from controller.runtime.access import Access
from controller.runtime.api import ApiOptions, serve_api, url_of
from controller.runtime.client import TOKEN_VARIABLE, FarmClient
from controller.runtime.feed import Feed
from controller.runtime.home import Home
from controller.runtime.http_json import BODY_TIMEOUT_S
from controller.runtime.options import URL_VARIABLE
from controller.store.sqlite import SqliteStore
from tests.support import builders
from tests.support.farm import FarmBox

TARGETS = [{"targets": ["127.0.0.1:1"], "labels": {"instance": "controller"}}]
TOKENS = {"api": "0123", "metrics": "4567", "wrong": "89ab", "none": None}


@asynccontextmanager
async def api(
    folder: Path,
    port: int = 0,
    body_timeout_s: float = BODY_TIMEOUT_S,
    store: type[SqliteStore] = SqliteStore,
) -> AsyncIterator[str]:
    """Serve a farm of one server for a while; give the URL."""
    box = FarmBox(folder / "store.sqlite", store)
    box.farm.register(builders.registration())
    access = Access(box.store, "0123", box.clock)
    options = ApiOptions(
        access=access, metrics_token="4567", port=port, body_timeout_s=body_timeout_s
    )
    runner = await serve_api(box.farm, Feed(), lambda: TARGETS, options)
    yield url_of(runner)
    await runner.cleanup()
    box.close()


async def ask(url: str, path: str, token: str | None, *, post: bool = False) -> tuple[int, object]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(url, headers=headers) as session,
        session.post(path, json={"sweep": builders.sweep().model_dump(mode="json")})
        if post
        else session.get(path) as answer,
    ):
        return answer.status, await answer.json() if answer.status == 200 else None


@pytest.mark.parametrize(
    ("token", "targets", "submission"),
    [("api", 200, 200), ("metrics", 200, 401), ("wrong", 401, 401), ("none", 401, 401)],
)
async def test_the_token_of_metrics_opens_what_prometheus_asks_and_nothing_else(
    tmp_path: Path, token: str, targets: int, submission: int
) -> None:
    async with api(tmp_path) as url:
        status, found = await ask(url, TARGETS_PATH, TOKENS[token])
        assert (status, found) == (targets, TARGETS if targets == 200 else None)
        status, _ = await ask(url, "/v1/sweeps", TOKENS[token], post=True)
        assert status == submission


async def test_it_listens_where_it_is_told_if_that_is_free(tmp_path: Path) -> None:
    async with api(tmp_path) as first:
        port = int(first.rpartition(":")[2])
    async with api(tmp_path, port) as again:
        assert again == first
    with listening(LOOPBACK) as taken:
        async with api(tmp_path, taken.getsockname()[1]) as other:
            assert int(other.rpartition(":")[2]) != taken.getsockname()[1]
            assert (await ask(other, TARGETS_PATH, "4567"))[0] == 200


async def test_what_is_held_up_is_for_the_administrator(tmp_path: Path) -> None:
    async with api(tmp_path) as url:
        assert await ask(url, ADMINISTRATION + HELD_UP, "0123") == (200, {"runs": {}})
        assert await ask(url, ADMINISTRATION + HELD_UP, "4567") == (401, None)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "x" * 5000, "gzip, gzip"])
async def test_an_encoded_body_is_refused_with_one_line(tmp_path: Path, encoding: str) -> None:
    headers = {"Authorization": f"Bearer {TOKENS['api']}", "Content-Encoding": encoding}
    body = b"\x1f\x8b what no decoder knows"
    async with (
        api(tmp_path) as url,
        aiohttp.ClientSession(url, headers=headers) as session,
        session.post("/v1/sweeps", data=body) as answer,
    ):
        assert answer.status == 400
        error = ErrorPayload.model_validate_json(await answer.read()).error()
    assert "the body is encoded: Content-Encoding" in str(error)
    assert len(str(error)) < 400


async def test_a_body_that_does_not_arrive_is_refused(tmp_path: Path) -> None:
    async with api(tmp_path, body_timeout_s=0.2) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        token = f"Authorization: Bearer {TOKENS['api']}"
        head = f"POST /v1/sweeps HTTP/1.1\r\nHost: x\r\n{token}\r\nContent-Length: 9\r\n\r\n"
        writer.write(head.encode())
        said = await reader.read()
        writer.close()
    assert said.startswith(b"HTTP/1.1 400")
    assert b"the body did not arrive" in said


class _FullDisk(SqliteStore):
    full = True

    def add_sweep(self, record: SweepRecord, runs: Sequence[Run]) -> list[Run]:
        if self.full:
            raise StoreUnavailable("store.sqlite", "database or disk is full")
        return super().add_sweep(record, runs)


async def test_a_full_disk_is_one_line_for_who_submits_and_nothing_is_lost(tmp_path: Path) -> None:
    async with api(tmp_path, store=_FullDisk) as url:
        client = FarmClient(Home(tmp_path), {URL_VARIABLE: url, TOKEN_VARIABLE: "0123"})
        with pytest.raises(UserError) as raised:
            await asyncio.to_thread(client.submit, builders.sweep())
        assert str(raised.value) == (
            "cannot store it on the head: database or disk is full; nothing was stored. "
            "Make room on the head's disk (`benchfarm status` there), then repeat the command."
        )
        _FullDisk.full = False
        submission = await asyncio.to_thread(client.submit, builders.sweep())
        assert (submission.new_runs > 0, submission.known_runs) == (True, 0)


class _Unreadable(SqliteStore):
    def tally(self, sweep_id: str) -> SweepTally:
        raise StoreUnavailable("store.sqlite", f"disk I/O error at {sweep_id}")


async def test_a_store_that_cannot_be_read_is_not_said_to_have_stored_nothing(
    tmp_path: Path,
) -> None:
    async with api(tmp_path, store=_Unreadable) as url:
        client = FarmClient(Home(tmp_path), {URL_VARIABLE: url, TOKEN_VARIABLE: "0123"})
        sweep_id = (await asyncio.to_thread(client.submit, builders.sweep())).sweep_id
        with pytest.raises(UserError) as raised:
            await asyncio.to_thread(client.sweep_status, sweep_id)
    assert str(raised.value) == (
        f"cannot read the head's store: disk I/O error at {sweep_id}. "
        "Make room on the head's disk (`benchfarm status` there), then repeat the command."
    )
