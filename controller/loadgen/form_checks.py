"""The form of the two logs: what is there twice, what is no line of LoadGen's, how lines end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from controller.loadgen.checks import Check, judged, unchecked
from controller.loadgen.logs import DETAIL, SUMMARY
from controller.loadgen.releases import GENERATED, LOADED, POWER
from controller.loadgen.run_logs import RunLogs
from controller.loadgen.texts import brief

_OF_PARTS: Final = (LOADED, *GENERATED, *POWER)
"""Keys that an accuracy run logs for each part of the samples."""
_OF_A_FILE: Final = ("loadgen_", "test_", "sut_", "get_sut_", "qsl_", "requested_")
"""How keys begin that a log has once even if it is of several tries."""
_COUNTERS: Final = "logger_"
"""How the keys of LoadGen's own counters begin, which nothing depends on."""


def form_checks(run: RunLogs) -> Iterator[Check]:
    """Yield a check of each departure from the form in which LoadGen writes its logs."""
    for key, said in run.detail.repeated.items():
        if not _may_repeat(run, key):
            by = "the log itself, which has it twice"
            yield judged(key, said[0], said[-1], by, same=False)
    yield from _lines(DETAIL, run.detail.unread, crlf=run.detail.has_crlf)
    if run.summary:
        yield from _lines(SUMMARY, run.summary.unread, crlf=run.summary.has_crlf)


def _may_repeat(run: RunLogs, key: str) -> bool:
    """Return whether LoadGen logs a key several times: for parts of the samples, for tries."""
    mode = run.detail.values["effective_test_mode"]
    if key.startswith(_COUNTERS):
        return True
    if mode == "PerformanceOnly":
        return False
    several_tries = mode != "AccuracyOnly"
    return key in _OF_PARTS or (several_tries and not key.startswith(_OF_A_FILE))


def _lines(name: str, unread: Sequence[str], *, crlf: bool) -> Iterator[Check]:
    if unread:
        why = f"{name} has {len(unread)} lines that LoadGen does not write; they are not read"
        yield unchecked("unread lines", brief(unread[0]), why)
    if crlf:
        yield unchecked("line ends", "CRLF", f"{name}: LoadGen writes so on Windows alone")
