"""`benchfarm status` and what other commands say of a farm that can't answer, from files alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from controller.contracts.version import installed_version
from controller.platform.atomic import write_private
from controller.runtime.health import process_of
from controller.runtime.home import Cluster, Endpoint, Home, Process
from controller.store.sqlite import SqliteStore
from tests.support.command_line import complaint_of, outcome_of

ENDED = Process(pid=1, started=0, name="gcs_server")
"""No process: the first one of a machine began later."""
SEEING = (("status",), ("device", "list"), ("sweep", "status"), ("agent", "list"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    SqliteStore.open(home.store).close()
    return home


def pretend_up(home: Home, port: int, *head: Process, manifests: str = "") -> None:
    """Write what a farm leaves in its home; its head is this process unless one is given."""
    cluster = Cluster(
        instance="abc",
        ray_address="127.0.0.1:1",
        dashboard_url="http://127.0.0.1:2",
        temp_dir="/t",
        head=head or (process_of(os.getpid()),),
    )
    write_private(home.cluster_file, cluster.model_dump_json())
    endpoint = Endpoint(
        url=f"http://127.0.0.1:{port}",
        version=installed_version(),
        pid=os.getpid(),
        manifests=manifests,
    )
    write_private(home.endpoint_file, endpoint.model_dump_json())


def called(home: Home, *arguments: str) -> tuple[object, str, str]:
    """Return the status of a call, and what it prints on standard output and error."""
    said, complained, status = outcome_of(home.path, *arguments)
    return status, said, complained


def test_before_and_after_a_farm_it_is_down_and_other_commands_say_nothing(home: Home) -> None:
    status, said, complained = called(home, "status")
    assert (status, complained) == (1, "")
    assert "farm     down (the farm is down)" in said
    assert "Run `benchfarm up`." in said
    for command in SEEING[1:]:
        status, _, complained = called(home, *command)
        assert (status, complained) == (0, "")


def test_a_home_that_does_not_exist_is_down(tmp_path: Path) -> None:
    status, said, complained = called(Home(tmp_path / "none"), "status", "--json")
    assert (status, complained) == (1, "")
    assert json.loads(said)["state"] == "down"
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("command", SEEING)
def test_a_dead_ray_is_said_in_one_line(home: Home, command: tuple[str, ...]) -> None:
    """What `ray stop` leaves: the files say that the farm is up, and its head has ended."""
    pretend_up(home, 1, ENDED)
    status, said, complained = called(home, *command)
    if command == ("status",):
        assert (status, complained) == (1, "")
        assert "the farm is down: gcs_server ended" in said
        return
    line = "benchfarm: the farm is down: gcs_server ended; run: benchfarm up\n"
    assert (status, complained) == (0, line)


def test_a_controller_that_is_away_is_said_in_one_line(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        nobody = held.getsockname()[1]
    pretend_up(home, nobody)
    line = f"the controller is away: nothing listens at 127.0.0.1:{nobody}"
    for command in SEEING[1:]:
        status, _, complained = called(home, *command)
        assert (status, complained.count("\n"), line in complained) == (0, 1, True)
    status, said, complained = called(home, "status")
    assert (status, complained) == (1, "")
    assert "farm     restarting" in said


def test_the_status_of_a_farm_elsewhere_is_asked_there(home: Home) -> None:
    url = "http://127.0.0.1:1"
    said = complaint_of(home.path, "status", BENCHFARM_URL=url)
    assert f"BENCHFARM_URL names the farm at {url}. Run this on the head" in said


def test_it_imports_neither_ray_nor_torch() -> None:
    code = "import sys, controller.cli.status; sys.exit(bool({'ray', 'torch'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-P", "-c", code]).returncode == 0
