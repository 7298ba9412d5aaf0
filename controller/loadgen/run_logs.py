"""The logs of one test of LoadGen, read together, and typed access to what they say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.loadgen import logs
from controller.loadgen.answers import Answers, read_answers
from controller.loadgen.detail import Detail, read_detail
from controller.loadgen.logs import TRACE, LogUnreadable
from controller.loadgen.releases import EARLY_STOPPING, TOKENS, Kind, last, release
from controller.loadgen.summary import Summary, as_setting, read_summary
from controller.loadgen.texts import brief, number
from controller.loadgen.trace import RawQueries, read_trace

SCENARIOS: Final = {
    "SingleStream": "single_stream",
    "MultiStream": "multi_stream",
    "Server": "server",
    "Offline": "offline",
}
"""LoadGen's name → ours."""
_COUNTS: Final = frozenset(
    {
        "result_query_count",
        "result_overlatency_query_count",
        "effective_samples_per_query",
        "effective_min_query_count",
        "effective_min_sample_count",
        "effective_min_duration_ms",
        "effective_max_duration_ms",
    }
)
"""Keys without which nothing can be worked out from a log with results."""
_OF_TOKENS: Final = ("result_first_token_99.00_percentile_latency_ns", "result_tokens_per_second")
"""Results of runs that count tokens: of all scenarios but offline, and of offline."""


@dataclass(frozen=True, slots=True)
class RunLogs:
    """All of LoadGen's files of one test."""

    detail: Detail
    summary: Summary | None
    """None: there is none, as in many published accuracy runs."""
    raw: RawQueries | None
    """None: there is no trace."""
    answers: Answers | None

    @property
    def scenario(self) -> str:
        """LoadGen's name of the scenario."""
        return str(self.detail.values["effective_scenario"])

    @property
    def is_performance(self) -> bool:
        """Whether queries were timed."""
        return str(self.detail.values["effective_test_mode"]) != "AccuracyOnly"

    @property
    def kind(self) -> Kind:
        """What decides which entries its detail log has."""
        values = self.detail.values
        return Kind(
            release(values["loadgen_version"]),
            self.scenario,
            str(values["effective_test_mode"]),
            values.get("result_validity") != "INVALID",
            self.counts_tokens,
        )

    @property
    def counts_tokens(self) -> bool:
        """Whether it was asked to count tokens, and has results that only such a run has."""
        values = self.detail.values
        asked = values.get("requested_use_token_latencies") is True
        can = release(values["loadgen_version"]) >= TOKENS
        return asked and can and any(key in values for key in _OF_TOKENS)

    @property
    def is_fixed_rate(self) -> bool:
        """Whether it is multi_stream as before 2.0, whose queries came at a fixed rate."""
        known = release(self.detail.values["loadgen_version"])
        return self.scenario == "MultiStream" and known < EARLY_STOPPING

    @property
    def results_in(self) -> str:
        """The file that has the results."""
        return logs.DETAIL if self.detail.has_results else logs.SUMMARY

    def said(self, key: str) -> object:
        """Return a value of the detail log, or of the summary if only that has it; else None."""
        if key in self.detail.values:
            found: object = self.detail.values[key]
            return found
        texts = self.summary.values.get(key) if self.summary else None
        return as_setting(texts[0]) if texts else None

    def number(self, key: str) -> float | None:
        """Return a number; raises LogUnreadable if the log has something else there."""
        value = self.said(key)
        found = number(value)
        if value is not None and found is None:
            raise LogUnreadable(f"{self.results_in}: {key} is {brief(value)!r}, no number")
        return found

    def count(self, key: str) -> int | None:
        """Return a count or a time; raises LogUnreadable if the log has something else there."""
        found = self.number(key)
        if found is not None and (found < 0 or found != int(found)):
            raise LogUnreadable(f"{self.results_in}: {key} is {brief(found)}, no count")
        return None if found is None else int(found)

    def flag(self, key: str) -> bool | None:
        """Return a yes or no; raises LogUnreadable if the log has something else there."""
        value = self.said(key)
        if value is not None and not isinstance(value, bool):
            raise LogUnreadable(f"{self.results_in}: {key} is {brief(value)!r}, neither yes nor no")
        return value


def read_run(folder: Path) -> RunLogs:
    """Read the logs of a folder; raises LogUnreadable in one line."""
    detail = read_detail(folder / logs.DETAIL)
    scenario, mode = (detail.values[f"effective_{name}"] for name in ("scenario", "test_mode"))
    if scenario not in SCENARIOS:
        raise LogUnreadable(f"{logs.DETAIL}: scenario {brief(scenario)!r} is not known")
    has_summary = (folder / logs.SUMMARY).exists()
    summary = read_summary(folder / logs.SUMMARY, scenario) if has_summary else None
    answers = read_answers(folder)
    found = RunLogs(detail, summary, read_trace(folder / TRACE), answers)
    has_verdict = "result_validity" in detail.values
    if not detail.has_results:
        has_verdict = found.said("result_validity") is not None
    if mode == "PerformanceOnly" and not has_verdict:
        raise LogUnreadable(f"{found.results_in}: truncated: it has no result_validity")
    for key in _COUNTS:
        found.count(key)
    _require_end(found)
    return found


def _require_end(run: RunLogs) -> None:
    """Raise LogUnreadable for a log that lacks what its release writes last."""
    key = last(run.kind)
    if key is None or not run.detail.has_results or key in run.detail.values:
        return
    major, minor = run.kind.release
    raise LogUnreadable(
        f"{logs.DETAIL}: truncated: it has no {key}, which LoadGen {major}.{minor} writes last"
    )
