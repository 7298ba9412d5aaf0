"""A farm whose Ray keeps its tables in a Redis: a head that is lost takes no other host with it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from controller.contracts.run import AttemptState, RunState
from controller.platform.atomic import write_private
from tests.integration.farm import training_sweep
from tests.support.figures import Figure
from tests.support.fleet import BENCHFARM, Fleet
from tests.support.namespaced_hosts import Host, Lab, Program, lab
from tests.support.redis import PORT, serve_redis
from tests.support.waiting import eventually, seconds_until

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

PASSWORD = "a-secret-of-two-hosts"
PASSWORD_FILE = "/root/redis-password"


@dataclass(frozen=True, slots=True)
class Place:
    """A head, a host that keeps a Redis, and room for more."""

    switch: Lab
    head: Host
    fleet: Fleet
    keeper: Host
    redis: Program

    def up(self, port: int = PORT) -> list[str]:
        """Return the command that brings the farm up."""
        redis = ("--redis", f"{self.keeper.address}:{port}", "--redis-password-file", PASSWORD_FILE)
        return ["up", "--no-agent", "--listen", self.head.address, *redis]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("head-loss")
    with lab(folder) as switch, switch.host("head") as head, switch.host("keeper") as keeper:
        fleet = Fleet.of(head)  # before the first `up` makes a home there
        yield Place(switch, head, fleet, keeper, serve_redis(keeper, PASSWORD))


@pytest.mark.parametrize(
    ("password", "port", "complaint"),
    [
        (PASSWORD, PORT + 1, "Connection refused"),
        ("another", PORT, "WRONGPASS invalid username-password pair or user is disabled."),
        ("", PORT, "it is empty"),
    ],
)
def test_up_refuses_a_redis_it_cannot_use(
    place: Place, password: str, port: int, complaint: str
) -> None:
    write_private(place.head.path(PASSWORD_FILE), password)
    said = place.head.run([BENCHFARM, *place.up(port)])
    assert said.returncode == 2
    assert complaint in said.stderr
    assert said.stderr.count("\n") == 1


def test_a_run_elsewhere_goes_on_while_the_head_is_lost(place: Place, figure: Figure) -> None:
    """Ray's node and the agent live on, and no lease is lost: nothing is measured again."""
    write_private(place.head.path(PASSWORD_FILE), PASSWORD)
    fleet = place.fleet
    fleet.cli(*place.up())
    with place.switch.host("node") as node:
        joined = fleet.join(node, "--reconnect-timeout", "300")
        eventually(lambda: fleet.device_of(node), "the host's device is there")
        sweep_id = fleet.submit(training_sweep("head-lost", 3))
        eventually(lambda: node.processes("agents.worker"), "the host's worker runs")
        before = lasting(node)

        place.head.cut_power()
        place.head.restore_link()
        away_s = seconds_until(lambda: fleet.cli(*place.up()), "the head is up again")
        figure("seconds from the head's loss to its return with Redis", away_s, "none")

        fleet.cli("sweep", "watch", sweep_id)
        assert lasting(node) == before
        assert joined.log.read_text().count("has joined") == 1
        assert [len(host.processes("ray::Controller")) for host in (place.head, node)] == [1, 0]
        (run,) = fleet.runs(sweep_id)
        assert run.state is RunState.DONE
        assert [attempt.state for attempt in run.attempts] == [AttemptState.SUCCEEDED]
        (result,) = json.loads(fleet.cli("results", "list", "--sweep", sweep_id, "--json"))
        assert result["counted"]

        place.redis.signal(signal.SIGKILL)
        eventually(lambda: place.head.processes("raylet") == [], "the head's raylet is gone")
        said = place.head.run([BENCHFARM, *place.up()])
        assert (said.returncode, said.stderr.count("Connection refused")) == (2, 1)
        redis = serve_redis(place.keeper, PASSWORD)
        fleet.cli(*place.up())
        eventually(lambda: fleet.device_of(node), "the host's device is there")
        assert lasting(node) == before
        redis.signal(signal.SIGKILL)
    said = place.head.run([BENCHFARM, "down"])
    assert said.returncode == 2
    assert "cannot delete Ray's tables in Redis at " in said.stderr


def lasting(node: Host) -> set[int]:
    """Return the processes of a joined host that do not come and go with a run."""
    words = ("raylet", "agents.joined", "agent start")
    return {process.pid for word in words for process in node.processes(word)}
