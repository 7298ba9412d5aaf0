"""A session of an old version of the suite on a virtual phone: broken off, continued, judged."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.cli.suite_view import summaries_of
from controller.contracts.records import StoredResult
from controller.contracts.suite_rules import load_suites
from controller.contracts.suite_session import NOT_VERIFIED, SessionSummary, Verdict
from controller.loadgen import logs
from controller.runtime.phones import StartedPhone
from controller.runtime.suite_sessions import read_sessions, session_ids
from controller.scheduling.suite_session import Session
from controller.store.sqlite import SqliteStore
from tests.integration.farm import BENCHFARM, Said, TestFarm, joined_phone
from tests.support.waiting import COMMAND_S, eventually

pytestmark = [pytest.mark.integration, pytest.mark.farm]
TASK = "mobiledet"
(RULES,) = (rules for rules in load_suites() if rules.version == "v3.0")
"""A version with other seeds than the newest, and without a longest duration."""


@pytest.fixture(scope="module")
def phone(farm: TestFarm) -> Iterator[StartedPhone]:
    with joined_phone(farm, "flagship") as phone:
        yield phone


def call(phone: StartedPhone) -> list[str]:
    """Return a call for one try of one part, with a surrogate: as short as there is."""
    short = ["--length", "rapid", "--policy", "ci", "--tries", "1"]
    of = ["--device", phone.facts.serial, "--task", TASK, "--surrogates"]
    return ["suite", "run", RULES.version, *of, *short]


def interrupted(farm: TestFarm, phone: StartedPhone) -> Said:
    """Begin a session, and press ^C once its part is queued."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        process = subprocess.Popen(
            [str(BENCHFARM), *call(phone)],
            env=farm.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, former)
    with process:
        try:
            eventually(lambda: sessions(farm) or process.poll() is not None, "the part is queued")
            process.send_signal(signal.SIGINT)  # what ended early shows by its exit status
            out, err = process.communicate(timeout=COMMAND_S)
        finally:
            process.kill()
    return Said(process.returncode, out, err)


def sessions(farm: TestFarm) -> list[Session]:
    """Return the sessions in the farm's store; a command would take seconds."""
    with closing(SqliteStore.open_reader(farm.home.store)) as store:
        return read_sessions(store, session_ids(store))


@pytest.fixture(scope="module")
def said(farm: TestFarm, phone: StartedPhone) -> tuple[Said, Said]:
    """What the first call and its continuation said."""
    return interrupted(farm, phone), farm.cli(*call(phone))


@pytest.fixture(scope="module")
def session(farm: TestFarm, said: tuple[Said, Said]) -> Session:
    (found,) = sessions(farm)
    assert all(f": session {found.id}\n" in one.out for one in said)
    return found


@pytest.fixture(scope="module")
def result(session: Session) -> StoredResult:
    (run,) = session.runs
    assert run.result, run.failure
    return run.result


@pytest.fixture(scope="module")
def summary(farm: TestFarm, session: Session) -> SessionSummary:
    with closing(SqliteStore.open_reader(farm.home.store)) as store:
        (found,) = summaries_of(store, [session])
    return found


def test_a_session_is_continued_to_its_end(said: tuple[Said, Said], result: StoredResult) -> None:
    first, second = said
    assert first.status == 130, first.err
    continued = f"continue the session with: benchfarm suite run {RULES.version} --device "
    assert continued in first.err
    assert re.search("continued: [01] of 1 runs have ended", second.out)
    assert result.validity == "VALID"
    assert result.metrics["mAP"].value > 0.7


def test_loadgen_ran_with_the_seeds_and_the_lengths_of_the_version(result: StoredResult) -> None:
    assert RULES.seeds
    facts = result.environment
    assert facts["suite_rules"] == "MLPerf Mobile v3.0 (unverified)"
    assert facts["loadgen_seeds"] == RULES.seeds.said
    assert facts["max_duration_ms"] == 0
    for mode in ("performance", "accuracy"):
        path = Path(result.artefacts[f"{mode}_loadgen_detail"])
        log = logs.DetailLog.parse(path.read_text())
        assert logs.seeds(log) == [*RULES.seeds.said]


def test_what_a_virtual_phone_did_never_meets_the_rules(
    said: tuple[Said, Said], summary: SessionSummary
) -> None:
    assert said[1].status == 1
    assert (summary.virtual, summary.surrogates) == (True, True)
    assert (summary.meets_rules, summary.verification) == (False, "unverified")
    rules = {rule.rule: rule for rule in summary.rules}
    why = rules["run rules of each result"].why
    for reason in ("surrogate model", "virtual device", "length rapid", "policy ci"):
        assert f"{TASK} single_stream, try 1: {reason}" in why
    assert not any("seeds" in reason for reason in why)
    for rule in ("whole suite", "pauses between tries", "replication"):
        assert rules[rule].verdict == Verdict.OPEN, rules[rule]
    for rule in ("one device", "one build of its system", "one framework", "times in order"):
        assert rules[rule].verdict == Verdict.MET, rules[rule]
    assert f"{RULES.version} (unverified) on " in said[1].out
    assert said[1].out.endswith(f"{NOT_VERIFIED}\n")
