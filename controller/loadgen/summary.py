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
SKIPPED: Final = "Skipped"
"""For a least number of queries that was not reached, and not asked for: see `count_is_waived`."""
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
    "Tokens per second": "result_tokens_per_second",
    "Completed tokens per second": "result_completed_tokens_per_second",
}
_PARAMETERS: Final = {
    "ttft_latency (ns)": "requested_server_ttft_latency",
    "tpot_latency (ns)": "requested_server_tpot_latency",
}
"""Settings of a run that counts tokens, of which the detail log has only what was asked for."""
_OF_TOKENS: Final = {
    "TTFT Early Stopping Result": "early_stopping_ttft_result",
    "TPOT Early Stopping Result": "early_stopping_tpot_result",
}
_NOTE: Final = (
    "WARNING: sample_concatenate_permutation was set to true.",
    "Generated samples per query might be different as the one in the setting.",
    "Check the generated_samples_per_query line in the detailed log for the real",
    "samples_per_query value",
)
"""What LoadGen prints after the settings of a run that permutes its samples; no warning of its."""
_OF_SAMPLES: Final = "Per-sample latency"
"""Heading, in a summary of round v1.0 and before, of what has the labels of queries' latency."""
_HEADINGS: Final = (TITLE, PARAMETERS, "Additional Stats", "Per-query latency", _OF_SAMPLES)
_NO_NAME: Final = "SUT name : "
"""Of a system under test that gives LoadGen no name."""
_INDENTED: Final = (" *", "   ")
"""How lines begin that belong to a heading."""
_EXTREME: Final = re.compile(r"(Min|Max|Mean) latency \(ns\)")
_PERCENTILE: Final = re.compile(
    r"(\d{1,3}(?:\.\d{1,4})?)(?:th)? percentile latency \(ns\)", re.ASCII
)
_TOKEN_EXTREME: Final = re.compile(
    r"(Min|Max|Mean) (First Token latency|Time (?:to|per) Output Token) \(ns\)"
)
_TOKEN_PERCENTILE: Final = re.compile(
    r"(\d{1,3}\.\d{1,4}) percentile (first token latency|time to output token) \(ns\)", re.ASCII
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
    of_tokens: Mapping[str, str]
    """Key of the detail log → the lines of early stopping of a run that counts tokens, joined."""
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
        {key: found for name, key in _OF_TOKENS.items() if (found := _block(lines, name))},
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
        queries &= label != _OF_SAMPLES
        if not colon or not value or line.startswith(_INDENTED) or label in _HEADINGS:
            continue
        if line.strip() in _NOTE:
            continue
        if parameters:
            yield _PARAMETERS.get(label, f"effective_{old_name(label)}"), label, value
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
    return _token_key(label)


def _token_key(label: str) -> str | None:
    if found := _TOKEN_EXTREME.fullmatch(label):
        which = found[1].lower()
        if found[2].startswith("First"):
            return f"result_first_token_{which}_latency_ns"
        return f"result_time_to_output_token_{which}"
    if found := _TOKEN_PERCENTILE.fullmatch(label):
        share = f"{float(found[1]):.2f}"
        if found[2].startswith("first"):
            return f"result_first_token_{share}_percentile_latency_ns"
        return f"result_time_per_output_token_{share}_percentile_ns"
    return None


def as_setting(text: str) -> object:
    """Return a summary's text as the detail log has it."""
    said = {"Yes": True, "NO": False, SKIPPED: False}.get(text)
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
    headings = (EARLY_STOPPING, RECOMMENDATIONS, *_OF_TOKENS)
    read = {n for heading in headings for n in _within(lines, heading) or ()}
    for number, line in enumerate(lines):
        label, _, value = (part.strip() for part in line.partition(":"))
        if number in read or not line.strip("= ") or label in (*_HEADINGS, *headings):
            continue
        if line.strip() in _NOTE or line == _NO_NAME:
            continue
        if _COUNTED.match(line) or (value and not line.startswith(_INDENTED)):
            continue
        yield line
