"""Users and the administrator at the command line of a real farm."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from controller.contracts.run import RunState
from tests.integration.farm import (
    BENCHFARM,
    Said,
    TestFarm,
    endless_sweep,
    run,
    training_sweep,
)

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]


class User:
    """Someone with a token and no farm of one's own."""

    def __init__(self, farm: TestFarm, token: str) -> None:
        url = farm.home.endpoint().url
        nowhere = {"BENCHFARM_HOME": str(farm.home.path / "nobody"), "BENCHFARM_URL": url}
        self._environment = {**farm.environment, **nowhere, "BENCHFARM_TOKEN": token}

    def cli(self, *arguments: str, stdin: str | None = None) -> Said:
        return run([str(BENCHFARM), *arguments], self._environment, stdin)


@pytest.fixture(scope="module")
def device(farm: TestFarm) -> Iterator[str]:
    """The farm's server; released at the end."""
    id_ = farm.server()["device"]["id"]
    yield id_
    assert farm.cli("device", "release", id_, "--all").status == 0


def test_a_submitter_has_own_sweeps_and_no_more_until_the_token_is_revoked(
    farm: TestFarm, device: str
) -> None:
    said = farm.cli("token", "create", "ann")
    ann = User(farm, said.out.strip())
    sweep = endless_sweep("anns")
    submitted = ann.cli("sweep", "submit", "-", stdin=json.dumps(sweep))
    assert submitted.status == 0, submitted.err
    sweep_id = submitted.out.split()[1].rstrip(":")

    refused = ann.cli("device", "quarantine", device, "--why", "mine")
    assert (refused.status, refused.out) == (2, "")
    assert "ann may only submit, watch and cancel sweeps" in refused.err
    assert len(refused.err.splitlines()) == 1
    assert "1 runs cancelled" in ann.cli("sweep", "cancel", sweep_id).out
    watched = ann.cli("sweep", "watch", sweep_id)
    assert (watched.status, watched.out) == (1, f"{sweep_id}: 1 cancelled\n")

    assert farm.cli("token", "revoke", "ann").status == 0
    refused = ann.cli("sweep", "resume", sweep_id)
    assert refused.status == 2
    assert "no valid token" in refused.err
    assert [r.state for r in farm.runs(sweep_id)] == [RunState.CANCELLED]
    (listed,) = farm.cli("token", "list", "--json").json
    assert listed["name"] == "ann"
    assert listed["revoked_at"]


def test_a_device_is_quarantined_reserved_labelled_and_released(
    farm: TestFarm, device: str
) -> None:
    def state() -> str:
        known = farm.server()
        return f"{known['state']} by {known['who']}: {known['why']}"

    def by_the_administrator() -> list[tuple[str, str]]:
        told = farm.cli("device", "history", device, "--json").json
        return [(event["state"], event["why"]) for event in told if event["who"] == "admin"]

    before = len(by_the_administrator())
    assert farm.cli("device", "quarantine", device, "--why", "it is 'loud'").status == 0
    assert state() == "quarantined by admin: it is 'loud'"
    sweep = json.dumps(training_sweep("nowhere"))
    refused = farm.cli("sweep", "submit", "-", stdin=sweep)
    assert refused.status == 2
    assert "its state, quarantined (it is 'loud')" in refused.err
    planned = farm.cli("sweep", "plan", "-", stdin=sweep)
    assert "its state, quarantined" in planned.out
    assert "1 without a device" in planned.out

    assert farm.cli("device", "release", device, "--why", "oiled").status == 0
    assert "1 cell on 1 device;" in farm.cli("sweep", "plan", "-", stdin=sweep).out
    stranger = farm.cli("device", "reserve", device, "--for", "2h", "--user", "zoe")
    assert (stranger.status, "there is no user zoe" in stranger.err) == (2, True)
    assert farm.cli("device", "reserve", device, "--for", "2h", "--user", "ann").status == 0
    (booked,) = farm.cli("device", "bookings", "--json").json
    assert [each["user"] for each in booked["bookings"]] == ["ann"]
    assert "reserved (for ann" in farm.cli("device", "release", device).out, "it is ann's"
    assert state() == "reserved by admin: for ann: reserved"
    assert farm.cli("device", "label", device, "rack=b2").status == 0
    assert "rack=b2" in farm.cli("device", "list").out
    assert farm.cli("device", "label", device, "rack-").status == 0
    assert "rack=b2" not in farm.cli("device", "list").out
    assert by_the_administrator()[before : before + 2] == [
        ("quarantined", "it is 'loud'"),
        ("ready", "released: oiled"),
    ]
    assert "ready" in farm.cli("device", "release", device, "--all").out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("device", "reserve", "{}", "--for", "soon"), "'soon': it is not a length of time"),
        (("device", "label", "{}", "a b=c"), "it is not KEY=VALUE"),
        (("device", "quarantine", "nobody", "--why", "x"), "cannot find device nobody"),
        (("device", "probe", "{}"), "it is not in quarantine"),
        (("device", "history", "$(id)"), "cannot find device $(id): there is no such device"),
        (("agent", "revoke", "a\nb"), "cannot find agent a b: there is no such agent"),
        (("token", "create", "../x"), "it is not allowed. Give 1 to 64 letters"),
        (("sweep", "resume", "nothing"), "there is no such sweep"),
    ],
)
def test_bad_calls_are_one_line(
    farm: TestFarm, device: str, arguments: tuple[str, ...], complaint: str
) -> None:
    said = farm.cli(*(word.format(device) for word in arguments))
    assert said.status == 2
    assert complaint in said.err
    assert len(said.err.splitlines()) == 1
