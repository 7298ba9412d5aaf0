"""A session of the mobile suite on a virtual phone: broken off, continued, and judged."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from controller.contracts.suite_session import NOT_VERIFIED, Verdict
from controller.runtime.phones import StartedPhone
from tests.integration.farm import BENCHFARM, Said, TestFarm, joined_phone
from tests.support.waiting import COMMAND_S, eventually

pytestmark = [pytest.mark.integration, pytest.mark.farm]
TASK, VERSION = "mobilenet_edgetpu", "v3.1"


@pytest.fixture(scope="module")
def phone(farm: TestFarm) -> Iterator[StartedPhone]:
    with joined_phone(farm, "flagship") as phone:
        yield phone


def call(phone: StartedPhone) -> list[str]:
    """Return a call for one try of the classifier's surrogate, as short as there is."""
    short = ["--length", "rapid", "--policy", "ci", "--task-pause", "1s", "--tries", "1"]
    of = ["--device", phone.facts.serial, "--task", TASK, "--surrogates"]
    return ["suite", "run", VERSION, *of, *short]


def interrupted(farm: TestFarm, phone: StartedPhone) -> Said:
    """Begin a session, and press ^C once its first part is queued."""
    process = subprocess.Popen(
        [str(BENCHFARM), *call(phone)],
        env=farm.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            eventually(lambda: farm.cli("suite", "status", "--json").json, "a part is queued")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=COMMAND_S)
        finally:
            process.kill()
    return Said(process.returncode, out, err)


@pytest.fixture(scope="module")
def said(farm: TestFarm, phone: StartedPhone) -> list[Said]:
    """What the first call and its continuation said."""
    return [interrupted(farm, phone), farm.cli(*call(phone))]


@pytest.fixture(scope="module")
def summary(farm: TestFarm, said: list[Said]) -> Any:  # noqa: ANN401 - as printed
    (session,) = (one["session"] for one in farm.cli("suite", "status", "--json").json)
    return farm.cli("suite", "show", session, "--json").json


def test_a_session_is_continued_to_its_end(said: list[Said], summary: Any) -> None:  # noqa: ANN401
    first, second = said
    assert first.status == 130
    assert f"continue the session with: benchfarm suite run {VERSION} --device " in first.err
    assert re.search("continued: [01] of 2 runs have ended", second.out)
    assert "try 1 of 1, part 2 of 2: mobilenet_edgetpu_surrogate offline" in second.out
    assert [(p["scenario"], len(p["tries"])) for p in summary["parts"]] == [
        ("single_stream", 1),
        ("offline", 1),
    ]
    tries = [tried for part in summary["parts"] for tried in part["tries"]]
    assert {tried["validity"] for tried in tries} == {"VALID"}
    assert all(tried["value"] > 0 and tried["accuracy"] > 0.9 for tried in tries)
    assert len({tried["sweep_id"] for tried in tries}) == 2


def test_what_a_virtual_phone_did_never_meets_the_rules(
    said: list[Said],
    summary: Any,  # noqa: ANN401 - as printed
) -> None:
    assert said[1].status == 1
    assert (summary["virtual"], summary["surrogates"]) == (True, True)
    assert (summary["meets_rules"], summary["verification"]) == (False, "unverified")
    rules = {rule["rule"]: rule for rule in summary["rules"]}
    why = rules["run rules of each result"]["why"]
    for reason in ("surrogate model", "virtual device", "length rapid", "policy ci"):
        assert f"all 2 results: {reason}" in why
    for rule in ("whole suite", "pauses between tries", "replication"):
        assert rules[rule]["verdict"] == Verdict.OPEN, rules[rule]
    pauses = ("pauses between tasks", "times in order")
    for rule in ("one device", "one build of its system", "one framework", *pauses):
        assert rules[rule]["verdict"] == Verdict.MET, rules[rule]
    assert f"{VERSION} (unverified) on " in said[1].out
    assert said[1].out.endswith(f"{NOT_VERIFIED}\n")
