"""`models fetch` as processes, which are killed, run twice or fill the disk; and what a farm says
of files that are not there."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from controller.runtime.home import Home
from models.mobile.store import Store
from tests.integration.farm import BENCHFARM, TestFarm
from tests.support.fetched_task import md5, write_task
from tests.support.file_server import FileServer, Served, file_server
from tests.support.waiting import COMMAND_S, PATIENCE_S, eventually

pytestmark = pytest.mark.integration
CONTENT = random.Random(1).randbytes(3_000_000)
PATH = "/app/v1/images.zip"
PART = f"partial/{md5(CONTENT).replace(':', '-')}.part"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as served:
        served.files[PATH] = Served(CONTENT)
        yield served


@pytest.fixture
def home(tmp_path: Path, server: FileServer) -> Home:
    """A home that has task `mine`, one of whose files the server has."""
    home = Home(tmp_path / "home")
    task = write_task(tmp_path, source=server.url + PATH, checksum=md5(CONTENT))
    done = call(home, "add", str(task))
    assert done.returncode == 0, done.stderr
    return home


def environment(home: Home) -> dict[str, str]:
    return {**os.environ, "BENCHFARM_HOME": str(home.path), "no_proxy": "127.0.0.1"}


def call(home: Home, *words: str, within: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*within, str(BENCHFARM), "models", *words],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
    )


def started(home: Home) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(BENCHFARM), "models", "fetch", "mine"],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def stored(home: Home) -> bool:
    return Store(home.path / "models").has(md5(CONTENT))


def test_a_killed_fetch_is_continued(home: Home, server: FileServer) -> None:
    file, part = server.files[PATH], home.path / "models" / PART
    hold = file.hold = threading.Event()
    file.hold_after = 1_000_000
    first = started(home)
    eventually(lambda: part.exists() and part.stat().st_size == file.hold_after, "a part is here")
    helpers = psutil.Process(first.pid).children(recursive=True)
    first.kill()
    first.communicate()
    # What downloads ends by itself, and until then would take what the server sends next.
    assert psutil.wait_procs(helpers, PATIENCE_S)[1] == []
    hold.set()
    again = call(home, "fetch", "mine")
    assert again.returncode == 0, again.stderr
    assert "images.zip: 3.0 MB, 1.0 MB of it are here, licence: CC0-1.0" in again.stdout
    assert server.gets == [None, "bytes=1000000-"]
    assert stored(home)


def test_two_processes_download_a_file_once(home: Home, server: FileServer) -> None:
    hold = server.files[PATH].hold = threading.Event()
    first = started(home)
    assert server.began.wait(PATIENCE_S)
    second = started(home)
    assert second.stdout is not None
    waits = "images.zip: another process fetches it; waiting for that\n"
    for line in second.stdout:
        if line == waits:
            break
    hold.set()
    told = [process.communicate()[0].splitlines()[-1] for process in (first, second)]
    assert told == ["images.zip: added, 3.0 MB", "images.zip: in the store already"]
    assert [first.returncode, second.returncode] == [0, 0]
    assert len(server.gets) == 1


@pytest.mark.parametrize("told", [True, False])
def test_a_full_disk_is_one_line(home: Home, server: FileServer, *, told: bool) -> None:
    """Whether the server says the size beforehand or not."""
    server.files[PATH].chunked = not told
    partial = home.path / "models/partial"
    partial.mkdir()
    mount = f"mount -t tmpfs -o size=2m tmpfs {partial}"
    within = ("unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "limited")
    if subprocess.run([*within, "true"], capture_output=True).returncode:
        pytest.skip("a small disk can't be mounted here")
    done = call(home, "fetch", "mine", within=within)
    assert done.returncode == 2
    seen = "bytes are missing, and" if told else "No space left on device in"
    assert done.stderr.startswith("benchfarm: cannot store the file: ")
    assert seen in done.stderr
    assert "Make room. Run the command again; it goes on from where it was." in done.stderr
    assert done.stderr.count("\n") == 1
    assert not stored(home)


@pytest.fixture
def farm_with_task(farm: TestFarm, server: FileServer, tmp_path: Path) -> Iterator[TestFarm]:
    """The farm all tests share, which has task `mine` for one of them."""
    task = write_task(tmp_path, source=server.url + PATH, checksum=md5(CONTENT))
    assert farm.cli("models", "add", str(task)).status == 0
    yield farm
    shutil.rmtree(farm.home.path / "models")


@pytest.mark.farm
def test_missing_files_are_named_before_anything_is_queued(
    farm_with_task: TestFarm,
) -> None:
    """By host, by `sweep validate` and by `sweep plan`, until they are fetched."""
    host = os.uname().nodename
    sweep = {"name": "s", "workload": "mine", "stack": "litert", "scenario": "single_stream"}
    said = f"{host}: lacks mine/tiny/samples (there, run `benchfarm models fetch mine`)"

    def lines(verb: str) -> list[str]:
        done = farm_with_task.cli("sweep", verb, "-", stdin=json.dumps(sweep))
        assert done.status == 0, done.err
        return [line for line in done.out.splitlines() if "mine/tiny" in line]

    assert lines("validate") == [said]
    assert lines("plan") == [said]
    assert farm_with_task.cli("models", "fetch", "mine").status == 0
    eventually(lambda: lines("validate") == [], "the farm knows of the file")
    assert lines("plan") == []
