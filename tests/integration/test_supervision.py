"""A farm that comes back by itself when a part of its head is killed, and who sees to that."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from controller.contracts.run import RunState
from controller.platform.atomic import write_private
from controller.platform.processes import FARM_MARKER, marked_processes
from controller.platform.programs import python_module
from controller.runtime.health import home_mark, is_supervised, process_of
from controller.runtime.home import Cluster, Endpoint, Home
from controller.runtime.lifetime import SUPERVISOR, bring_down, supervisor_environment
from controller.runtime.supervising import HEAD_SUPERVISOR
from tests.integration.farm import BENCHFARM, TestFarm, farm_up, first_step, training_sweep
from tests.support.processes import is_dead
from tests.support.waiting import eventually, seconds_until

pytestmark = pytest.mark.integration
Record = Callable[[str, object], None]


def supervisors(home: Home) -> set[int]:
    found = marked_processes(FARM_MARKER, home_mark(home, SUPERVISOR))
    return {p.pid for p in found if not is_dead(p)}


def pair(home: Home) -> set[int]:
    """Wait for the one that looks after a farm and the one that takes over."""
    return eventually(
        lambda: found if len(found := supervisors(home)) == 2 and is_supervised(home) else None,
        "two supervisors",
    )


def test_one_takes_over_when_the_other_is_killed_and_down_ends_both(tmp_path: Path) -> None:
    """With nothing to do: the farm of this home is made of this process, which does not end."""
    home = Home(tmp_path)
    home.prepare()
    with socket.create_server(("127.0.0.1", 0)) as controller:
        own = process_of(os.getpid())
        cluster = Cluster(
            instance="abc", ray_address="", dashboard_url="", temp_dir="/t", head=(own,)
        )
        write_private(home.cluster_file, cluster.model_dump_json())
        url = f"http://127.0.0.1:{controller.getsockname()[1]}"
        endpoint = Endpoint(url=url, version="1", pid=os.getpid())
        write_private(home.endpoint_file, endpoint.model_dump_json())
        write_private(home.wanted, "{}")
        with subprocess.Popen(
            python_module(HEAD_SUPERVISOR), env=supervisor_environment(home)
        ) as first:
            second = pair(home) - {first.pid}
            first.kill()
        both = pair(home)
        assert both > second, "the one that waited took over, and has another wait"
        home.cluster_file.unlink()  # there is no farm to end
        assert (bring_down(home) or 0) >= 2
    assert supervisors(home) == set()
    assert not is_supervised(home)


@pytest.fixture(scope="module")
def own_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestFarm]:
    """A farm that is taken apart, and is another one afterwards."""
    with farm_up(tmp_path_factory.mktemp("supervised")) as farm:
        yield farm
        assert pair(farm.home)
    assert supervisors(farm.home) == set()


@pytest.mark.farm
def test_a_head_that_lost_its_raylet_comes_back_with_its_ports_and_goes_on(
    own_farm: TestFarm, record_property: Record
) -> None:
    before, cluster = own_farm.home.endpoint(), own_farm.cluster
    sweep_id = own_farm.submit(training_sweep("raylet-killed", 2, repeats=2))
    with own_farm.events(sweep_id) as events:
        first_step(events)
        (raylet,) = (p for p in cluster.head if p.name == "raylet")
        os.kill(raylet.pid, signal.SIGKILL)

    said = own_farm.cli("device", "list", "--json")
    assert "the farm is being started again" in said.err
    assert {d["state"] for d in said.json} == {"lost"}
    away_s = seconds_until(lambda: is_back(own_farm, before), "the farm is whole again")
    record_property("seconds from a raylet's end to a controller that listens", away_s)

    assert own_farm.cli("sweep", "watch", sweep_id).status == 0
    after = own_farm.home.endpoint()
    assert (after.url, after.metrics_port) == (before.url, before.metrics_port)
    assert own_farm.cluster.instance == cluster.instance
    assert {run.state for run in own_farm.runs(sweep_id)} == {RunState.DONE}
    results = own_farm.cli("results", "list", "--sweep", sweep_id, "--json").json
    assert len({r["run_id"] for r in results if r["counted"]}) == 2
    assert not Path(cluster.temp_dir).parent.exists()


def is_back(farm: TestFarm, before: Endpoint) -> bool:
    there = farm.home.endpoint_file.exists()
    return there and farm.home.endpoint().pid != before.pid


@pytest.mark.farm
@pytest.mark.long
def test_up_while_the_farm_is_being_started_again_waits_for_it(own_farm: TestFarm) -> None:
    (gcs,) = (p for p in own_farm.cluster.head if p.name == "gcs_server")
    os.kill(gcs.pid, signal.SIGKILL)
    said = own_farm.cli("up")
    assert said.status == 0, said.err
    assert own_farm.cli("device", "list").err == ""
    log = (own_farm.home.logs / "supervisor.log").read_text()
    assert re.search("gcs_server.* ended", log) or "farm     up," in said.out


@pytest.mark.farm
@pytest.mark.long
def test_an_end_of_everything_is_said_at_once_and_nothing_waits(own_farm: TestFarm) -> None:
    """With the supervisors killed first, nobody starts it again."""
    pair(own_farm.home)
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped, neither starts another one
        for pid in supervisors(own_farm.home):
            with suppress(ProcessLookupError):  # one that only brought the farm up
                os.kill(pid, number)
    (gcs,) = (p for p in own_farm.cluster.head if p.name == "gcs_server")
    os.kill(gcs.pid, signal.SIGKILL)
    # What depends on it ends soon after, and is named beside it from then on.
    down = re.compile("the farm is down: .*gcs_server.* ended")
    eventually(lambda: down.search(own_farm.cli("device", "list").err), down.pattern)
    said = own_farm.cli("sweep", "submit", "-", stdin='{"name": "x"}')
    assert said.status == 2
    said = own_farm.cli("sweep", "cancel", "any")
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert re.search(r"gcs_server.* ended\. Run `benchfarm up`\.", said.err)
    assert own_farm.cli("up").status == 0


@pytest.mark.farm
@pytest.mark.long
def test_in_the_foreground_it_is_supervisor_itself_and_its_end_is_the_farm_s(
    tmp_path: Path,
) -> None:
    farm = TestFarm(Home(tmp_path / "home"))
    command = [str(BENCHFARM), "up", "--block", "--no-agent"]
    with subprocess.Popen(command, env=farm.environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        said = [process.stdout.readline() for _ in range(5)]
        assert said[0].startswith(b"farm     up, home")
        assert process.pid in pair(farm.home)
        instance = farm.cluster.instance
        process.terminate()
        assert process.wait() == 0
    assert supervisors(farm.home) == set()
    assert list(marked_processes(FARM_MARKER, instance)) == []
    assert farm.home.cluster() is None
