"""What was profiled, where, when and under which conditions, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from controller.contracts.facts import unit_of
from controller.contracts.peaks import COPY, MOVING, UPDATE, Peaks, Roof
from controller.contracts.profile import ProfileOrigin, ProfileSummary
from controller.reports.views.conditions import fact_text

_VERSIONS = ("torch", "onednn")
_NAMED = ("cpu_model", "malloc", *_VERSIONS)
"""Facts of the environment that identify a profile."""


def identity_lines(summary: ProfileSummary) -> list[str]:
    """Return what a profile is of in a few lines, and what nothing tells of it."""
    origin = summary.origin or ProfileOrigin()
    facts = dict(_identity(origin))
    told = [f"{name} {text}" for name, text in facts.items() if text and name != "knobs"]
    unknown = [name for name, text in facts.items() if text is None]
    return [
        *([", ".join(told)] if told else []),
        *([f"knobs: {facts['knobs']}"] if facts["knobs"] else []),
        *([f"peaks: {_peaks(summary.peaks)}"] if summary.peaks else []),
        *([f"not known: {', '.join(unknown)}"] if unknown else []),
    ]


def origin_facts(summary: ProfileSummary) -> list[tuple[str, str]]:
    """Return all that is known of a profile's conditions as name and value."""
    origin = summary.origin or ProfileOrigin()
    found = [(name, text or "not known") for name, text in _identity(origin)]
    if summary.peaks:
        found.append(("peaks", _peaks(summary.peaks)))
    known = {name for name, _ in found}
    return found + [
        (name, fact_text(value, unit_of(name, {})))
        for name, value in origin.environment.items()
        if name not in known
    ]


def _identity(origin: ProfileOrigin) -> Iterator[tuple[str, str | None]]:
    """Yield what identifies a profile; None for what nothing tells."""
    if origin.file:
        yield "file", origin.file
    yield "workload", origin.workload
    yield "stack", origin.stack
    yield "device", origin.device
    yield "threads", None if origin.threads is None else str(origin.threads)
    for name in _NAMED:
        value = origin.environment.get(name)
        yield name, None if value is None else fact_text(value, unit_of(name, {}))
    yield "date", origin.date
    knobs = origin.knobs
    yield "knobs", None if knobs is None else " ".join(f"{k}={v}" for k, v in knobs.items())


_MOVES = {COPY: "copy", UPDATE: "fused update"}


def rate_name(name: str) -> str:
    """Return what a peak is of. name: a data type or one of MOVING."""
    return _MOVES.get(name) or f"matrix product, {name}"


def rate_text(name: str, per_s: float) -> str:
    """Return a peak with its unit. name: a data type or one of MOVING."""
    return f"{per_s * 1e-9:.1f} GB/s" if name in MOVING else f"{per_s * 1e-9:.0f} GFLOP/s"


def _peaks(peaks: Peaks) -> str:
    if peaks.roofs:
        return "; ".join(_roof(name, roof) for name, roof in peaks.roofs.items())
    rates = {**peaks.gemm_flops, COPY: peaks.copy_bytes}
    told = ", ".join(f"{name} {rate_text(name, rate)}" for name, rate in rates.items())
    return f"{told}; measured {peaks.measured_at or 'at a date that is not known'}"


def _roof(name: str, roof: Roof) -> str:
    median = rate_text(name, roof.median).partition(" ")[0]
    date = roof.date or "at a date that is not known"
    return f"{name} {rate_text(name, roof.best)} (median then {median}; {roof.source}, {date})"
