"""As a second user: every file, socket, port and process of a running farm with a virtual phone."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import psutil
import pytest

from agents.remotes.adb.server import SERVER_MARKER
from controller.platform.processes import FARM_MARKER, marked_processes
from controller.runtime.phones import adb_key, await_devices, connect_phone, started_phone
from tests.integration.farm import TestFarm, farm_up
from tests.support.intruder import RAY, Targets, call_ray, command_lines, made, tokens_in
from tests.support.other_user import call_as_other_user, needs_other_user
from tests.support.validity import MET_RULES

pytestmark = [pytest.mark.integration, pytest.mark.farm, needs_other_user]
SERIAL = "SHARED1"


@dataclass(frozen=True, slots=True)
class SharedFarm:
    """A farm in a place that everybody may enter, with a phone that a run is on."""

    farm: TestFarm
    targets: Targets
    sweep_id: str


@pytest.fixture(scope="module")
def shared() -> Iterator[SharedFarm]:
    # Not below pytest's own folder, which nobody else can enter whatever the farm does.
    place = Path(tempfile.mkdtemp(prefix="shared-"))
    place.chmod(0o755)
    umask = os.umask(0o022)
    try:
        with (
            farm_up(place / "home") as farm,
            started_phone("old", adb_key(farm.home), options=[f"--serial={SERIAL}"]) as phone,
        ):
            connect_phone(farm.home, phone.address)
            await_devices(farm.home, [SERIAL])
            sweep = {
                "name": "shared",
                "workload": "shapes_classifier",
                "stack": "litert",
                "scenario": "single_stream",
                "devices": [f'device == "{SERIAL}"'],
                "deadline_s": 200,
            }
            sweep_id = farm.submit(sweep)
            with farm.events(sweep_id) as events:
                next(event for event in events if event.progress)
            folders = [place, Path(farm.cluster.temp_dir), Path(phone.facts.folder)]
            yield SharedFarm(
                farm, Targets.of(processes_of(farm, phone.process.pid), folders), sweep_id
            )
    finally:
        os.umask(umask)
        shutil.rmtree(place)


def processes_of(farm: TestFarm, phone: int) -> Iterator[psutil.Process]:
    yield from marked_processes(FARM_MARKER, farm.cluster.instance)
    for status in farm.home.adb_statuses():
        yield from marked_processes(SERVER_MARKER, str(status.parent))
    yield psutil.Process(phone)
    yield from psutil.Process(phone).children(recursive=True)


def test_a_second_user_gets_nothing_and_changes_no_run(shared: SharedFarm) -> None:
    targets, farm = shared.targets, shared.farm
    attempts = list(targets.attempts())
    sys.stdout.write("\n".join(attempt.what for attempt in attempts))  # shown if it fails
    assert len(targets.processes) > 8
    assert len(targets.paths) > 50
    assert len(targets.unix) > 2
    assert len(targets.ports) > 3
    assert any("control.sock" in name for name in targets.unix)
    got = call_as_other_user(lambda: made(attempts))
    # The place itself is everybody's, so that all below it can be tried.
    place = farm.home.path.parent
    got.pop(f"read {place}")
    assert not got, "\n".join(f"{what}: {outcome}" for what, outcome in got.items())
    assert farm.cli("sweep", "watch", shared.sweep_id).status == 0
    (result,) = farm.cli("results", "list", "--sweep", shared.sweep_id, "--json").json
    assert result["validity"] in MET_RULES
    assert result["attempt"] == 1


def test_command_lines_hold_no_secret(shared: SharedFarm) -> None:
    home = shared.farm.home
    secrets = [f.read_text().strip() for f in (home.ray_token, home.api_token, home.metrics_token)]
    read = call_as_other_user(lambda: command_lines(shared.targets.processes))
    assert "raylet" in read
    assert tokens_in(read, secrets) == []


def test_the_calls_that_ray_refuses_are_answered_with_the_token(shared: SharedFarm) -> None:
    """Else they would be refused for another reason, and the attack above would show nothing."""
    token = shared.farm.home.ray_token.read_text().strip()
    port = int(shared.farm.cluster.ray_address.rpartition(":")[2])
    method = RAY[1]
    assert call_as_other_user(lambda: call_ray(port, method)) is grpc.StatusCode.UNAUTHENTICATED
    assert call_as_other_user(lambda: call_ray(port, method, token)) is grpc.StatusCode.OK
