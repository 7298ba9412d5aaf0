"""Import of a profile from a oneDNN verbose log or a chrome trace of torch.profiler."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import BinaryIO

from controller.contracts.profile import ProfileSummary
from controller.profiles.assembling import from_totals, kernel_rows, primitive_rows, summarised
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.model import Profile
from controller.profiles.reading import open_file, read_trace
from controller.profiles.verbose import LogFacts, totals


def import_file(path: Path) -> Profile:
    """Read a file of either kind, plain or gzip; raises ProfileUnreadable."""
    try:
        with open_file(path) as file:
            beginning = file.read(4096).lstrip()
            file.seek(0)
            if not beginning:
                raise _unreadable(path, "it is empty")
            is_trace = beginning.startswith((b"{", b"["))
            return import_trace(path) if is_trace else import_log(file, path)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from error


def import_log(file: BinaryIO, path: Path) -> Profile:
    """Read a verbose log; raises ProfileUnreadable if it has no execution."""
    facts = LogFacts()
    rows, strange = primitive_rows(from_totals(totals(file, facts)), steps=1)
    if not rows:
        seen = 'the log contains no "primitive,exec" line'
        first = f"; its first other line is {facts.example[:40]!r}" if facts.example else ""
        raise _unreadable(path, seen + first)
    notes = []
    if len(facts.libraries) > 1:
        notes.append(f"logs of several releases of oneDNN: {', '.join(facts.libraries)}")
    if strange:
        notes.append(f"{strange} executions with a description that isn't known")
    summary = ProfileSummary(
        steps=1,
        libraries=tuple(facts.libraries),
        isa=facts.isa,
        skipped=facts.skipped + strange,
        example=facts.example,
        notes=tuple(notes),
    )
    return summarised(summary, [], rows)


def import_trace(path: Path) -> Profile:
    """Read a chrome trace; raises ProfileUnreadable if it isn't torch.profiler's, and OSError."""
    trace = read_trace(path)
    steps = trace.found.steps
    summary = ProfileSummary(
        steps=len(steps),
        traced_step_s=sum(steps) / len(steps) if steps else None,
        explained=trace.found.explained,
        skipped=trace.skipped,
        example=trace.example,
        notes=trace.notes,
    )
    return summarised(summary, kernel_rows(trace.found), [])


def _unreadable(path: Path, seen: str) -> ProfileUnreadable:
    return ProfileUnreadable(
        f"read {path}",
        seen,
        "Give a oneDNN verbose log (ONEDNN_VERBOSE=1), or a CPU trace of torch.profiler.",
    )
