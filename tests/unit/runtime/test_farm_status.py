"""What `benchfarm status` makes of a farm: each planted trouble is named with a remedy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controller.cli.status import _lines
from controller.contracts.checks import Health
from controller.contracts.device import DeviceState, Hold, RegisteredAgent
from controller.contracts.errors import PhoneUnavailable, SweepInvalid
from controller.contracts.farm_status import FarmCondition
from controller.contracts.plugins import LeftOut, plugin_left_out
from controller.contracts.run import AttemptState, Run
from controller.contracts.waiting import Waiting, WaitReason
from controller.runtime.disks import GIB, DiskFacts
from controller.runtime.farm_facts import FarmFacts, StoredFacts
from controller.runtime.farm_status import farm_status
from controller.runtime.fleet import DeviceOverview
from controller.runtime.home import ApiProcess, Cluster, Endpoint, Process
from tests.support import builders

HOME = Path("/srv/farm")
CLUSTER = Cluster(
    instance="abc", ray_address="127.0.0.1:1", dashboard_url="http://127.0.0.1:2", temp_dir="/t"
)
AGENT = RegisteredAgent(agent=builders.agent(), online=True, since=100.0)
READY = DeviceOverview(
    device=builders.cpu(),
    name="xeon-3",
    agent_id="host-1",
    state=DeviceState.READY,
    since=100.0,
    who="host-1",
    why="agent host-1 has it",
    run_id=None,
)
STORED = StoredFacts(agents=(AGENT,), devices=(READY,))
WELL = FarmFacts(
    home=HOME,
    release="0.2.0",
    away="",
    unanswered="",
    cluster=CLUSTER,
    joined=False,
    waits_for_head=False,
    since=90.0,
    endpoint=Endpoint(url="http://127.0.0.1:3", version="0.2.0", pid=7),
    prometheus=None,
    prometheus_answers=False,
    api=None,
    api_runs=False,
    manifests_changed=False,
    disks=(DiskFacts(HOME, 50 * GIB, None),),
    aside=(),
    phones=(),
    stored=STORED,
)
DRAIN = Hold(since=3600.0, who="admin", why="new fans")
LEASE = builders.attempt("cpu-1", 1, AttemptState.LEASED).model_copy(update={"agent_id": "host-1"})
LEASED = builders.run(attempts=(LEASE,))
DEAD_RAY = "the farm is down: gcs_server, raylet ended"


def device(state: DeviceState, who: str, why: str, agent: str = "host-1") -> FarmFacts:
    changed = {"state": state, "who": who, "why": why, "agent_id": agent}
    return replace(WELL, stored=replace(STORED, devices=(READY.model_copy(update=changed),)))


def agent(**changes: object) -> FarmFacts:
    return replace(WELL, stored=replace(STORED, agents=(AGENT.model_copy(update=changes),)))


def queued(waits: Waiting, runs: int = 1) -> FarmFacts:
    each = [builders.run().model_copy(update={"run_id": f"run-{n}"}) for n in range(runs)]
    told = {run.run_id: waits for run in each}
    return replace(WELL, stored=replace(STORED, runs=tuple(each), waits=told))


def test_a_farm_that_is_well_has_nothing_to_do() -> None:
    found = farm_status(WELL)
    assert (found.state, found.why, found.checks, found.well) == (FarmCondition.UP, "", (), True)
    assert (found.since, found.version) == (90.0, "0.2.0")
    assert found.addresses.model_dump() == {
        "api": "http://127.0.0.1:3",
        "ray": "127.0.0.1:1",
        "dashboard": "http://127.0.0.1:2",
        "prometheus": None,
        "page": None,
    }
    assert found.devices == {DeviceState.READY: 1}
    assert [(a.agent_id, a.state, a.devices) for a in found.agents] == [("host-1", "online", 1)]


@pytest.mark.parametrize(
    "facts",
    [
        replace(WELL, unanswered="the controller has not answered for 5 s"),
        replace(WELL, release="0.9.9"),
        replace(WELL, manifests_changed=True),
    ],
)
def test_who_is_to_start_it_anew_is_told_with_which_options(facts: FarmFacts) -> None:
    facts = replace(facts, up="benchfarm up --listen 10.0.0.1:6379")
    remedies = [check.remedy for check in farm_status(facts).checks]
    command = "`benchfarm down`, then `benchfarm up --listen 10.0.0.1:6379`"
    assert any(command in remedy for remedy in remedies)


@pytest.mark.parametrize(
    ("facts", "condition", "seen", "remedy"),
    [
        (replace(WELL, away="the farm is down"), "down", "is down", "benchfarm up"),
        (replace(WELL, away=DEAD_RAY), "down", "gcs_server, raylet ended", "benchfarm up"),
        (
            replace(WELL, away="the farm is being started again: raylet ended"),
            *("restarting", "raylet ended", "supervisor.log"),
        ),
        (
            replace(WELL, unanswered="the controller has not answered for 5 s"),
            *("silent", "has not answered for 5 s", "benchfarm down"),
        ),
        (
            replace(WELL, unanswered="the controller is away: nothing listens at 127.0.0.1:3"),
            *("restarting", "nothing listens", "supervisor.log"),
        ),
        (
            replace(WELL, cluster=None, endpoint=None, away="x", waits_for_head=True),
            *("waiting", "waits for the head", "check its address"),
        ),
    ],
)
def test_a_farm_that_does_not_work(
    facts: FarmFacts, condition: str, seen: str, remedy: str
) -> None:
    found = farm_status(facts)
    first = found.checks[0]
    assert (found.state, first.what, first.health) == (condition, "farm", Health.MEND)
    assert seen in first.seen
    assert remedy in first.remedy
    assert not found.well


@pytest.mark.parametrize("away", ["the farm is down", DEAD_RAY])
def test_of_a_farm_that_is_down_no_address_or_age_is_shown(away: str) -> None:
    found = farm_status(replace(WELL, away=away))
    assert set(found.addresses.model_dump().values()) == {None}
    assert (found.since, found.version) == (None, None)


def test_the_agents_of_a_farm_that_is_down_are_no_trouble_of_their_own() -> None:
    found = farm_status(replace(agent(online=False), away="the farm is down"))
    assert [check.what for check in found.checks] == ["farm"]


def test_a_host_that_has_joined_is_well() -> None:
    joined = replace(WELL, joined=True, endpoint=None, stored=StoredFacts())
    found = farm_status(joined)
    assert (found.state, found.well) == (FarmCondition.JOINED, True)
    assert "127.0.0.1:1" in found.why


API = ApiProcess(
    url="https://10.0.0.5:8443/", arguments=(), process=Process(pid=1, started=1, name="main")
)
BROKEN = SweepInvalid("read manifest x.yaml", "key name: it is missing", "Correct it.")
LEFT_OUT = plugin_left_out("my-farm 1.0", "no manifests")
UNREAD = LeftOut(
    noun="manifests", name="x", what="manifest x.yaml", seen="not YAML", remedy="Correct it."
)
COMPLAINT = PhoneUnavailable("reach phone R58M", "its key is unknown", "Confirm it.")


@pytest.mark.parametrize(
    ("facts", "what", "seen", "remedy"),
    [
        (replace(WELL, release="0.3.0"), "farm", "runs 0.2.0, installed is 0.3.0", "down"),
        (
            replace(WELL, disks=(DiskFacts(HOME, 1 << 20, None),)),
            *("disk", "less than 64 MiB are free", "Delete"),
        ),
        (replace(WELL, disks=(DiskFacts(HOME, 50 * GIB, 3),)), "disk", "3 more files", "Delete"),
        (
            replace(WELL, stored=replace(STORED, damage=("run r-1: checksum", "run r-2: x"))),
            *("store", "run r-1: checksum, and 1 more", "benchfarm store check"),
        ),
        (
            replace(WELL, aside=(HOME / "r-1.refused", HOME / "r-2.damaged")),
            *("outbox", "2 outcomes were refused or can't be read: /srv/farm/r-1.refused", ".json"),
        ),
        (
            replace(WELL, api=API),
            *("API", "the API at https://10.0.0.5:8443/ has ended", "logs/api.log"),
        ),
        (agent(online=False), "agents", "agent host-1 on host", "agent revoke host-1"),
        (agent(clock_ahead_s=-7.0), "clock", "7.0 s behind", "NTP"),
        (
            device(DeviceState.QUARANTINED, "controller", "3 failures in a row"),
            *("devices", "xeon-3 is in quarantine: 3 failures", "device release cpu-1"),
        ),
        (
            queued(Waiting(reason=WaitReason.GONE, device="cpu-9")),
            *("runs", "1 run waits: the farm no longer knows cpu-9", "sweep cancel"),
        ),
        (queued(Waiting(reason=WaitReason.NO_DEVICE)), "runs", "the farm has no device", "Bring"),
        (
            queued(Waiting(reason=WaitReason.NO_MATCH, why="cores >= 64")),
            *("runs", "no device fits: cores >= 64", "Bring"),
        ),
        (replace(WELL, phones=(COMPLAINT,)), "phones", "cannot reach phone R58M", "Confirm it."),
        (
            replace(WELL, prometheus="http://127.0.0.1:9"),
            *("Prometheus", "nothing listens at http://127.0.0.1:9", "up --prometheus"),
        ),
        (
            replace(WELL, stored=replace(STORED, catalog_fault=BROKEN)),
            *("manifests", "cannot read manifest x.yaml: key name", "Correct it."),
        ),
        (
            replace(WELL, stored=replace(STORED, left_out=(LEFT_OUT,))),
            *("plugins", "package my-farm 1.0 is left out: no manifests", "pip uninstall my-farm"),
        ),
        (
            replace(WELL, stored=replace(STORED, left_out=(UNREAD,))),
            *("manifests", "manifest x.yaml is left out: not YAML", "Correct it."),
        ),
        (replace(WELL, manifests_changed=True), "manifests", "since the farm came up", "down"),
    ],
)
def test_what_is_wrong_is_named_with_a_remedy(
    facts: FarmFacts, what: str, seen: str, remedy: str
) -> None:
    found = farm_status(facts)
    (check,) = found.checks
    assert (check.what, check.health, found.well) == (what, Health.MEND, False)
    assert seen in check.seen
    assert remedy in check.remedy


@pytest.mark.parametrize(
    "facts",
    [
        device(DeviceState.OFFLINE, "host-1", "unplugged"),
        device(DeviceState.UNAUTHORIZED, "host-1", "it has not authorised this host"),
        replace(WELL, disks=(DiskFacts(HOME, GIB, None),)),
        queued(Waiting(reason=WaitReason.AWAY, device="cpu-1", why="lost (silent)")),
        agent(draining=DRAIN),
        agent(draining=DRAIN, online=False),
    ],
)
def test_what_can_wait_is_a_hint(facts: FarmFacts) -> None:
    found = farm_status(facts)
    assert ([check.health for check in found.checks], found.well) == ([Health.HINT], True)


@pytest.mark.parametrize(
    ("online", "runs", "state", "seen"),
    [
        (True, (), "drained", ""),
        (True, (LEASED,), "draining", ""),
        (False, (), "lost", "; it is not heard"),
    ],
)
def test_a_drained_host_is_named_with_who_and_why(
    online: bool, runs: tuple[Run, ...], state: str, seen: str
) -> None:
    known = AGENT.model_copy(update={"draining": DRAIN, "online": online})
    found = farm_status(replace(WELL, stored=replace(STORED, agents=(known,), runs=runs)))
    (check,) = found.checks
    assert check.seen == (
        f"host host-1 takes no runs since 1970-01-01 01:00 UTC, by admin: new fans{seen}"
    )
    assert check.remedy.endswith("benchfarm agent undrain host-1.")
    assert [one.state for one in found.agents] == [state]


@pytest.mark.parametrize(
    "facts",
    [
        agent(online=False, revoked=Hold(since=1.0, who="admin", why="sold")),
        device(DeviceState.QUARANTINED, "admin", "by hand"),
        device(DeviceState.RESERVED, "admin", "for ann: a paper"),
        queued(Waiting(reason=WaitReason.TURN, device="cpu-1", ahead=3, run_id="r", user="ann")),
        replace(WELL, prometheus="http://127.0.0.1:9", prometheus_answers=True),
        replace(WELL, api=API, api_runs=True),
    ],
)
def test_what_a_person_has_decided_and_what_ends_by_itself_is_no_trouble(facts: FarmFacts) -> None:
    assert (farm_status(facts).checks, farm_status(facts).well) == ((), True)


def test_what_runs_and_the_commonest_reason_come_first() -> None:
    leased = builders.attempt("cpu-1", 1, AttemptState.LEASED)
    running = builders.run().model_copy(update={"run_id": "run-9", "attempts": (leased,)})
    turn = Waiting(reason=WaitReason.TURN, device="cpu-1", ahead=3, run_id="run-9", user="ann")
    booked = Waiting(
        reason=WaitReason.RESERVED, device="cpu-1", user="ann", until=7200.0, why="a paper"
    )
    few, many = (_numbered(queued(turn, 1)), _numbered(queued(booked, 3), "b"))
    runs = (*few, *many, running)
    waits = {run.run_id: turn for run in few} | {run.run_id: booked for run in many}
    users = {running.sweep_id: "ann"}
    stored = replace(STORED, runs=runs, waits=waits, users=users)
    found = farm_status(replace(WELL, stored=stored))
    assert [(r.run_id, r.user, r.device) for r in found.running] == [("run-9", "ann", "cpu-1")]
    assert found.queued == 4
    assert [group.runs for group in found.waiting] == [3, 1]


def test_a_run_on_a_virtual_device_is_marked() -> None:
    device = builders.cpu().model_copy(update={"virtual": True})
    virtual = READY.model_copy(update={"device": device})
    found = farm_status(replace(WELL, stored=replace(STORED, devices=(virtual,), runs=(LEASED,))))
    assert [run.likeness for run in found.running] == [" (virtual)"]
    assert any(line.strip().startswith("xeon-3 (virtual): run run-1 ") for line in _lines(found))
    real = farm_status(replace(WELL, stored=replace(STORED, runs=(LEASED,))))
    assert any(line.strip().startswith("xeon-3: run run-1 ") for line in _lines(real))


def _numbered(facts: FarmFacts, prefix: str = "a") -> list[Run]:
    return [
        run.model_copy(update={"run_id": f"{prefix}-{n}"})
        for n, run in enumerate(facts.stored.runs)
    ]
