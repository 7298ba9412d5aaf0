"""LoadGen's summary: each of its lines under the key that the detail log has for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.loadgen.detail import of_setting, old_name
from controller.loadgen.logs import LogUnreadable
from controller.loadgen.texts import brief, has_crlf, read_text

TITLE: Final = "MLPerf Results Summary"
PARAMETERS: Final = "Test Parameters Used"
EARLY_STOPPING: Final = "Early Stopping Result"
RECOMMENDATIONS: Final = "Recommendations"
_LABELS: Final = {
    "SUT name": "sut_name",
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "Result is": "result_validity",
    "Performance constraints satisfied": "result_perf_constraints_met",
    "Min duration satisfied": "result_min_duration_met",
    "Min queries satisfied": "result_min_queries_met",
    "Early stopping satisfied": "early_stopping_met",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "Samples per second": "result_samples_per_second",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
}
_HEADINGS: Final = (TITLE, PARAMETERS, "Additional Stats", "Per-query latency")
_INDENTED: Final = (" *", "   ")
"""How lines begin that belong to a heading."""
_EXTREME: Final = re.compile(r"(Min|Max|Mean) latency \(ns\)")
_PERCENTILE: Final = re.compile(
    r"(\d{1,3}(?:\.\d{1,4})?)(?:th)? percentile latency \(ns\)", re.ASCII
)
_COUNTED: Final = re.compile(r"(No|\d+) (warning|error)s? encountered", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a summary says."""

    values: Mapping[str, tuple[str, ...]]
    """Key of the detail log → each text of it."""
    early_stopping: str | None
    """The lines of its result, joined; None: it has none."""
    recommendations: str | None
    counted: Mapping[str, int]
    """`warning` and `error` → their number."""
    unknown: tuple[str, ...]
    """Labels that have no key."""
    unread: tuple[str, ...] = ()
    """Lines that no release writes."""
    has_crlf: bool = False
    """Whether its lines end as on Windows."""


def read_summary(path: Path, scenario: object) -> Summary:
    """Read the summary of a run; raises LogUnreadable: foreign, truncated …"""
    text = read_text(path)
    counted = {
        found[2].lower(): 0 if found[1].lower() == "no" else int(found[1][:9])
        for found in _COUNTED.finditer(text)
    }
    if not counted and TITLE not in text:
        raise LogUnreadable(f"{path.name}: not a summary of LoadGen: {brief(text) or 'empty'}")
    if set(counted) != {"warning", "error"} or not text.endswith("\n"):
        raise LogUnreadable(f"{path.name}: truncated: it does not end with warnings and errors")
    crlf, lines = has_crlf(text, path.name), text.splitlines()
    pairs = [*_pairs(lines, queries=scenario == "MultiStream")]
    values: dict[str, tuple[str, ...]] = {}
    for key, _, value in pairs:
        if key:
            values[key] = (*values.get(key, ()), value)
    return Summary(
        values,
        _block(lines, EARLY_STOPPING),
        _block(lines, RECOMMENDATIONS),
        counted,
        tuple(label for key, label, _ in pairs if not key),
        tuple(_unread(lines)),
        crlf,
    )


def _pairs(lines: Sequence[str], *, queries: bool) -> Iterator[tuple[str | None, str, str]]:
    """Yield key, label and text of each line with a value; the key is None if unknown."""
    parameters = False
    for line in lines:
        label, colon, value = (part.strip() for part in line.partition(":"))
        parameters |= label == PARAMETERS
        if not colon or not value or line.startswith(_INDENTED) or label in _HEADINGS:
            continue
        if parameters:
            yield f"effective_{old_name(label)}", label, value
        else:
            yield _key(label, queries=queries), label, value


def _key(label: str, *, queries: bool) -> str | None:
    if label in _LABELS:
        return _LABELS[label]
    if found := _EXTREME.fullmatch(label):
        return f"result_{found[1].lower()}{'_query' if queries else ''}_latency_ns"
    if found := _PERCENTILE.fullmatch(label):
        return (
            f"result_{float(found[1]):.2f}_percentile{'_per_query' if queries else ''}_latency_ns"
        )
    return None


def as_setting(text: str) -> object:
    """Return a summary's text as the detail log has it."""
    said = {"Yes": True, "NO": False}.get(text)
    return of_setting(text) if said is None else said


def _block(lines: Sequence[str], heading: str) -> str | None:
    """Return the lines of a heading, joined; None if it is not there."""
    found = _within(lines, heading)
    return None if found is None else " ".join(lines[found.start : found.stop])


def _within(lines: Sequence[str], heading: str) -> range | None:
    """Return where the lines after a heading are, up to the next empty one or heading."""
    start = next((n for n, line in enumerate(lines) if line.strip() == f"{heading}:"), None)
    if start is None:
        return None
    rest = range(start + 1, len(lines))
    ends = (n for n in rest if not lines[n].strip() or lines[n].endswith(":"))
    return range(start + 1, next(ends, len(lines)))


def _unread(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of which nothing is read."""
    headings = (EARLY_STOPPING, RECOMMENDATIONS)
    read = {n for heading in headings for n in _within(lines, heading) or ()}
    for number, line in enumerate(lines):
        label, _, value = (part.strip() for part in line.partition(":"))
        if number in read or not line.strip("= ") or label in (*_HEADINGS, *headings):
            continue
        if _COUNTED.match(line) or (value and not line.startswith(_INDENTED)):
            continue
        yield line
