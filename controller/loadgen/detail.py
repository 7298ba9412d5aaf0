"""The detail log of any LoadGen release: its settings, results, messages and errors.

From v0.7 on, a line is a JSON entry (logs.py). Releases built without that format print
`"pid": …, "tid": …, "ts": …ns : name : value`, and no results; its names are turned into the
keys of the JSON entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controller.loadgen import logs
from controller.loadgen.logs import LogUnreadable
from controller.loadgen.texts import Value, brief, read_text, typed

OLDEST: Final = (0, 5)
NEWEST: Final = 6
"""The last major release whose logs are known."""
MODES: Final = {
    "Performance": "PerformanceOnly",
    "Accuracy": "AccuracyOnly",
    "Submission": "SubmissionRun",
    "Find Peak Performance": "FindPeakPerformance",
}
_OF_A_RUN: Final = ("effective_", "requested_", "result_", "early_stopping_", "power_", "num_")
"""How keys begin that are there once."""
_MESSAGE: Final = "generic_message"
_OLD: Final = re.compile(r'"pid": \d+, "tid": \d+, "ts": \d+ns : (.*)')
_SECTIONS: Final = {"Effective Settings:": "effective_", "Requested Settings:": "requested_"}
_OLD_NAMES: Final = {
    "Date + time of test": "test_datetime",
    "System Under Test (SUT) name": "sut_name",
    "Query Sample Library (QSL) name": "qsl_name",
    "QSL total size": "qsl_reported_total_count",
    "QSL performance size*": "qsl_reported_performance_count",
    "version": "loadgen_version",
}
_TIME: Final = re.compile(r'"time" : (\d\d-\d\d-\d{4} [\d:.]+)')


@dataclass(frozen=True, slots=True)
class Detail:
    """What a detail log says."""

    values: Mapping[str, Any]
    """Key → value; the last one of a repeated key."""
    repeated: Mapping[str, tuple[object, ...]]
    """Key → its values, of those that a log has once and that are there with several."""
    times_ms: Mapping[str, object]
    """Key → when it was logged, since the start of the test."""
    errors: tuple[str, ...]
    warnings: int
    messages: tuple[str, ...]
    has_results: bool
    """Whether results are in this log, too: older releases print them to the summary alone."""

    @property
    def log(self) -> logs.DetailLog:
        """The log as the runner reads it."""
        return logs.DetailLog(self.values, self.errors)


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    value: Any
    is_error: bool = False
    is_warning: bool = False
    time_ms: object = None


def read_detail(path: Path) -> Detail:
    """Read a detail log; raises LogUnreadable: foreign, truncated, of an unknown release …"""
    text = read_text(path)
    is_old = _OLD.match(text) is not None
    found = [*(_old_entries(text) if is_old else _entries(text))]
    if not found:
        raise LogUnreadable(f"{path.name}: not a log of LoadGen: {brief(text) or 'empty'}")
    if not text.endswith("\n"):
        raise LogUnreadable(f"{path.name}: truncated: its last line has no end")
    detail = _detail_of(found, has_results=not is_old)
    _require_known(detail, path.name)
    return detail


def _entries(text: str) -> Iterator[_Entry]:
    for entry in logs.entries(text):
        said = entry["metadata"]
        warning = said.get("is_warning", False)
        if not isinstance(entry["key"], str):
            raise LogUnreadable(f"{logs.DETAIL}: {brief(entry['key'])!r} is no key")
        yield _Entry(
            entry["key"],
            entry["value"],
            bool(said["is_error"]),
            bool(warning),
            entry.get("time_ms"),
        )


def _detail_of(found: list[_Entry], *, has_results: bool) -> Detail:
    values: dict[str, Any] = {}
    repeated: dict[str, tuple[object, ...]] = {}
    for entry in found:
        key, value = entry.key, entry.value
        if key in values and key.startswith(_OF_A_RUN) and values[key] != value:
            repeated[key] = (*repeated.get(key, (values[key],)), value)
        values[key] = value
    return Detail(
        values,
        repeated,
        {entry.key: entry.time_ms for entry in found},
        tuple(str(entry.value) for entry in found if entry.is_error),
        sum(entry.is_warning for entry in found),
        tuple(str(entry.value) for entry in found if entry.key == _MESSAGE),
        has_results,
    )


def _require_known(detail: Detail, name: str) -> None:
    said = detail.values.get("loadgen_version")
    if said is None:
        raise LogUnreadable(f"{name}: it has no loadgen_version")
    if not OLDEST <= release(said) < (NEWEST + 1, 0):
        raise LogUnreadable(f"{name}: LoadGen {brief(said)!r} is not known; 0.5 to {NEWEST} are")
    for key in ("effective_scenario", "effective_test_mode"):
        if key not in detail.values:
            raise LogUnreadable(f"{name}: truncated: it has no {key}")


def release(said: object) -> tuple[int, int]:
    """Return the numbers of a release, such as `6.0.16 @ 2b5f63eb56` or `.5a1`; else (-1, 0)."""
    found = re.match(r"(\d{0,3})\.(\d{1,3})", said) if isinstance(said, str) else None
    return (int(found[1] or 0), int(found[2])) if found else (-1, 0)


def _old_entries(text: str) -> Iterator[_Entry]:
    section = ""
    for line in text.splitlines():
        found = _OLD.fullmatch(line)
        if found is None:
            continue  # a list of files or commits
        said = found[1].strip()
        if said in _SECTIONS or not said:
            section = _SECTIONS.get(said, "")
            continue
        if said.startswith(("ERROR", "WARNING")):
            yield _Entry("message", said, said.startswith("ERROR"), said.startswith("WARNING"))
            continue
        yield _old_entry(section, said)


def _old_entry(section: str, said: str) -> _Entry:
    name, _, value = (part.strip() for part in said.partition(":"))
    if name.startswith("POWER_"):
        time = _TIME.search(value)
        return _Entry(name.lower(), time[1] if time else value)
    if section:
        return _Entry(section + old_name(name), of_setting(value))
    if name in _OLD_NAMES:
        return _Entry(_OLD_NAMES[name], typed(value))
    return _Entry(_MESSAGE, said.removesuffix(":"))


def old_name(label: str) -> str:
    """Return the key's end of a setting's label: `target_latency (ns)` → `target_latency_ns`."""
    return label.lower().replace("(", "").replace(")", "").replace(" ", "_")


def of_setting(text: str) -> Value:
    """Return a setting as the JSON entries have it: `Single Stream` → `SingleStream`."""
    if text in MODES:
        return MODES[text]
    return typed(text.replace(" ", "") if text in ("Single Stream", "Multi Stream") else text)
