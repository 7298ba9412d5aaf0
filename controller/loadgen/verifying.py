"""All checks of the logs of one test. Pure but for reading its files."""

from __future__ import annotations

from collections.abc import Iterator

from controller.loadgen.answer_checks import answer_checks
from controller.loadgen.between import between
from controller.loadgen.checks import Check, equal, judged, unchecked
from controller.loadgen.clock_checks import clock_checks
from controller.loadgen.form_checks import form_checks
from controller.loadgen.latency_checks import latency_checks
from controller.loadgen.missing_checks import missing_checks
from controller.loadgen.part_checks import part_checks
from controller.loadgen.run_logs import RunLogs
from controller.loadgen.setting_checks import setting_checks
from controller.loadgen.time_checks import time_checks
from controller.loadgen.verdict_checks import verdict_checks


def verify(run: RunLogs) -> list[Check]:
    """Return all checks that LoadGen's files allow by themselves; raises LogUnreadable."""
    return [*_once(run), *_all(run)]


def _all(run: RunLogs) -> Iterator[Check]:
    yield from form_checks(run)
    yield from missing_checks(run)
    yield from part_checks(run)
    yield from clock_checks(run)
    yield from between(run)
    yield from setting_checks(run)
    if run.is_fixed_rate:
        why = "multi_stream before LoadGen 2.0, whose queries came at a fixed rate"
        yield unchecked("result_validity", run.said("result_validity"), why)
    elif run.said("result_validity") is not None:
        yield from latency_checks(run)
        yield from time_checks(run)
        yield from verdict_checks(run)
    yield from answer_checks(run)


def _once(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of the release and of LoadGen's own errors."""
    said = run.detail.values["loadgen_version"]
    major, minor = run.kind.release
    yield judged(
        "loadgen_version", said, f"a known release, {major}.{minor}", "0.5 to 6", same=True
    )
    if (counted := run.count("num_errors")) is not None:
        yield equal("num_errors", counted, len(run.detail.errors), "the entries that are errors")
    if run.detail.errors:
        why = "LoadGen logged errors, of which MLPerf's rules allow none: "
        yield unchecked("errors", len(run.detail.errors), why + run.detail.errors[0])
