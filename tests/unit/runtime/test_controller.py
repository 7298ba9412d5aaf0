"""A controller that can't start, or can't write: it tries again, and `up` is told of its start."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from controller.contracts.errors import HomeUnusable, StoreUnavailable
from controller.platform.atomic import write_private
from controller.runtime import cluster as clusters
from controller.runtime.client import Timings
from controller.runtime.controller import Controller, keep_time
from controller.runtime.feed import Feed
from controller.runtime.home import Cluster, Endpoint, Home
from controller.runtime.lifetime import UpOptions, bring_up
from controller.runtime.options import QUARANTINE_AFTER, ControllerOptions
from controller.store.sqlite import SqliteStore
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox
from tests.support.waiting import PATIENCE_S

CLUSTER = Cluster(instance="abc", ray_address="127.0.0.1:1", dashboard_url="", temp_dir="/t")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.prepare()
    return home


def listens_at(home: Home, url: str) -> None:
    endpoint = Endpoint(url=url, version="0.2.0", pid=7)
    write_private(home.endpoint_file, endpoint.model_dump_json())


class Exited(BaseException):
    """What `os._exit` is here."""


def exit_(status: int) -> None:
    raise Exited(status)


async def test_a_restart_that_fails_ends_the_process_so_that_there_is_another(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "_exit", exit_)
    options = ControllerOptions(str(home.path), "127.0.0.1", 0, QUARANTINE_AFTER)
    writer = SqliteStore.open(home.store)
    try:
        with pytest.raises(HomeUnusable):  # the first start: nobody was told of an endpoint yet
            Controller(options)
        listens_at(home, "http://127.0.0.1:1")
        with pytest.raises(Exited):
            Controller(options, restart_pause_s=0.0)
    finally:
        writer.close()
    assert "another process writes to it" in caplog.text


@pytest.fixture
def remains(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A farm whose Ray lives; nothing can be started in its place."""

    def start_head(*_: object) -> Cluster:
        raise AssertionError("a farm was begun")

    monkeypatch.setattr(clusters, "start_head", start_head)
    monkeypatch.setattr(clusters, "is_alive", lambda _: True)
    monkeypatch.setattr(clusters, "has_head", lambda _: True)
    write_private(home.cluster_file, CLUSTER.model_dump_json())
    return home


def test_a_farm_whose_controller_is_gone_is_not_up(
    remains: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    short = Timings(restart_s=0.1, retry_s=0.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        listens_at(remains, url)
        assert bring_up(remains, UpOptions(), short).url == url
    with pytest.raises(AssertionError, match="a farm was begun"):
        bring_up(remains, UpOptions(), short)
    said = f"waiting up to 0 s for the controller of {remains.path}\n"
    assert capsys.readouterr().err == said


async def test_a_full_disk_is_told_once_and_outlasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration())
    box.clock.now += TTL_S
    save_agent, full = box.store.save_agent, [StoreUnavailable("store", "disk full")] * 3

    def save(*args: Any) -> None:  # noqa: ANN401 - as the method
        if full:
            raise full.pop()
        save_agent(*args)

    monkeypatch.setattr(box.store, "save_agent", save)
    clock = asyncio.create_task(keep_time(box.farm, Feed(), store_pause_s=0.0))
    async with asyncio.timeout(PATIENCE_S):
        while box.farm.state().agents[0].online and not clock.done():
            await asyncio.sleep(0)
    assert not clock.done()
    clock.cancel()
    box.close()
    told = ["leases and bookings cannot end until the store can be written: store store: disk full"]
    assert [record.message for record in caplog.records] == told
