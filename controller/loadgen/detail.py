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
from controller.loadgen.releases import release
from controller.loadgen.texts import Value, brief, has_crlf, read_text, typed

OLDEST: Final = (0, 5)
NEWEST: Final = 6
"""The last major release whose logs are known."""
MODES: Final = {
    "Performance": "PerformanceOnly",
    "Accuracy": "AccuracyOnly",
    "Submission": "SubmissionRun",
    "Find Peak Performance": "FindPeakPerformance",
}
_MESSAGE: Final = "generic_message"
_MESSAGES: Final = (_MESSAGE, "error_", "warning_", "message")
"""How keys of messages begin, of which a log may have any number."""
_OLD: Final = re.compile(r'"pid": \d+, "tid": \d+, "ts": \d+ns : (.*)', re.ASCII)
_OF_AN_ENTRY: Final = (":::MLLOG", '"ts":')
"""What a line that is no entry never has; with it, one reader takes it for one, another doesn't."""
_SECTIONS: Final = {"Effective Settings:": "effective_", "Requested Settings:": "requested_"}
_OLD_NAMES: Final = {
    "Date + time of test": "test_datetime",
    "System Under Test (SUT) name": "sut_name",
    "Query Sample Library (QSL) name": "qsl_name",
    "QSL total size": "qsl_reported_total_count",
    "QSL performance size*": "qsl_reported_performance_count",
    "version": "loadgen_version",
}
_TIME: Final = re.compile(r'"time" : (\d\d-\d\d-\d{4} [\d:.]+)', re.ASCII)


@dataclass(frozen=True, slots=True)
class Stamp:
    """When an entry was logged."""

    key: str
    thread: str
    """Of one thread, entries are in the order in which they were logged."""
    time_ms: object
    """Since the start of the test; whatever the entry has there."""


@dataclass(frozen=True, slots=True)
class Detail:
    """What a detail log says."""

    values: Mapping[str, Any]
    """Key → value; the last one of a repeated key."""
    every: Mapping[str, tuple[Any, ...]]
    """Key → all its values, in order."""
    stamps: tuple[Stamp, ...]
    """Of each entry; none in the older form."""
    errors: tuple[str, ...]
    warnings: int
    messages: tuple[str, ...]
    has_results: bool
    """Whether its lines are JSON entries: older releases print results to the summary alone."""
    unread: tuple[str, ...] = ()
    """Lines that are no entries; not those of the older form, which has lists of files."""
    has_crlf: bool = False
    """Whether its lines end as on Windows."""

    @property
    def repeated(self) -> Mapping[str, tuple[Any, ...]]:
        """Key → its values, of those but messages that are there with unlike ones."""
        return {
            key: found
            for key, found in self.every.items()
            if len(found) > 1 and not key.startswith(_MESSAGES) and len({*map(repr, found)}) > 1
        }

    def time_ms(self, key: str) -> object:
        """Return when an entry was logged, the last one of its key; None if there is none."""
        return next((each.time_ms for each in reversed(self.stamps) if each.key == key), None)

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
    stamp: Stamp | None = None


def read_detail(path: Path) -> Detail:
    """Read a detail log; raises LogUnreadable: foreign, truncated, of an unknown release …"""
    text = read_text(path)
    is_old = _OLD.match(text) is not None
    found = [*(_old_entries(text) if is_old else _entries(text))]
    if not found:
        raise LogUnreadable(f"{path.name}: not a log of LoadGen: {brief(text) or 'empty'}")
    if not text.endswith("\n"):
        raise LogUnreadable(f"{path.name}: truncated: its last line has no end")
    crlf = has_crlf(text, path.name)
    unread = [*_unread(text, path.name, is_old=is_old)]
    detail = _detail_of(found, () if is_old else tuple(unread), has_results=not is_old, crlf=crlf)
    _require_known(detail, path.name)
    return detail


def _entries(text: str) -> Iterator[_Entry]:
    for entry in logs.entries(text):
        said, key = entry["metadata"], entry["key"]
        if not isinstance(key, str):
            raise LogUnreadable(f"{logs.DETAIL}: {brief(key)!r} is no key")
        yield _Entry(
            key,
            entry["value"],
            bool(said["is_error"]),
            bool(said.get("is_warning", False)),
            Stamp(key, brief(said.get("tid")), entry.get("time_ms")),
        )


def _unread(text: str, name: str, *, is_old: bool) -> Iterator[str]:
    """Yield the lines that are no entries; raises LogUnreadable for one that looks like one."""
    for line in text.splitlines():
        if not line.strip() or (_OLD.fullmatch(line) if is_old else line.startswith(logs.MARK)):
            continue
        if any(mark in line for mark in _OF_AN_ENTRY):
            shown = brief(line.strip("\ufeff"))
            raise LogUnreadable(f"{name}: an entry in a form that LoadGen does not write: {shown}")
        yield line


def _detail_of(
    found: list[_Entry], unread: tuple[str, ...], *, has_results: bool, crlf: bool
) -> Detail:
    every: dict[str, list[Any]] = {}
    for entry in found:
        every.setdefault(entry.key, []).append(entry.value)
    return Detail(
        {key: values[-1] for key, values in every.items()},
        {key: tuple(values) for key, values in every.items()},
        tuple(entry.stamp for entry in found if entry.stamp),
        tuple(str(entry.value) for entry in found if entry.is_error),
        sum(entry.is_warning for entry in found),
        tuple(str(entry.value) for entry in found if entry.key == _MESSAGE),
        has_results,
        unread,
        crlf,
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
