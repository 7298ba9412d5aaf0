"""Import of a profile from a oneDNN verbose log or a chrome trace of torch.profiler."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from controller.contracts.errors import UserError
from controller.contracts.profile import Creation, ProfileOrigin, ProfileSummary
from controller.profiles.assembling import from_totals, kernel_rows, primitive_rows, summarised
from controller.profiles.dates import date_of
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.model import Profile
from controller.profiles.reading import open_file, read_trace
from controller.profiles.repeating import Order, Repeats
from controller.profiles.verbose import MAX_EXAMPLE, LogFacts, totals


def import_file(path: Path, steps: int | None = None) -> Profile:
    """Read a file of either kind, plain or gzip; raises ProfileUnreadable.

    steps: how many it holds, if the file doesn't tell; raises UserError if it tells otherwise.
    """
    try:
        with open_file(path) as file:
            beginning = file.read(4096).lstrip()
            file.seek(0)
            if not beginning:
                raise _unreadable(path, "it is empty")
            is_trace = beginning.startswith((b"{", b"["))
            return import_trace(path, steps) if is_trace else import_log(file, path, steps)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from error


def import_log(file: BinaryIO, path: Path, steps: int | None = None) -> Profile:
    """Read a verbose log; raises ProfileUnreadable if it has no execution."""
    facts, order = LogFacts(), Order()
    found = from_totals(totals(file, facts, order))
    repeats = order.repeats()
    known = steps or (repeats.count if repeats else None)
    rows, strange = primitive_rows(found, steps=known or 1)
    if not rows:
        seen = 'the log contains no "primitive,exec" line'
        first = f"; its first other line is {facts.example[:40]!r}" if facts.example else ""
        raise _unreadable(path, seen + first)
    summary = ProfileSummary(
        origin=_origin_of_log(path, facts),
        steps=known,
        libraries=tuple(facts.libraries),
        isa=facts.isa,
        created=_creations(facts),
        skipped=facts.skipped + strange,
        example=facts.example,
        notes=(*_notes(facts, strange), *_steps_note(steps, repeats)),
    )
    return summarised(summary, [], rows)


def import_trace(path: Path, steps: int | None = None) -> Profile:
    """Read a chrome trace; raises ProfileUnreadable if it isn't torch.profiler's, and OSError.

    Raises UserError if it marks another number of steps than is said.
    """
    trace = read_trace(path)
    found = trace.found
    marked = len(found.steps) if found.marked else None
    if steps and marked and steps != marked:
        raise UserError(
            f"import {path} with --steps {steps}",
            f"the trace marks {marked} steps itself",
            "Leave --steps out.",
        )
    known = marked or steps
    summary = ProfileSummary(
        origin=ProfileOrigin(file=path.name, date=date_of(found.began_s)),
        steps=known,
        traced_step_s=sum(found.steps) / (known or 1) if found.steps else None,
        op_threads=found.threads,
        explained=found.explained,
        left_out=dict(trace.facts.left_out),
        skipped=trace.skipped,
        example=trace.example,
        notes=(*trace.notes, *trace.timeline_notes, *(() if marked else _steps_note(steps, None))),
    )
    profile = summarised(summary, kernel_rows(found, known or 1), [])
    return replace(profile, timeline=found.spans)


def _origin_of_log(path: Path, facts: LogFacts) -> ProfileOrigin:
    said = {
        "onednn": ", ".join(facts.libraries) or None,
        "onednn_isa": facts.isa,
        "onednn_runtime": facts.runtime,
    }
    return ProfileOrigin(
        file=path.name,
        date=date_of(facts.began_s),
        threads=facts.threads,
        environment={name: value for name, value in said.items() if value},
    )


def _creations(facts: LogFacts) -> tuple[Creation, ...]:
    found = [
        Creation(kind=how.decode(errors="replace")[:MAX_EXAMPLE], calls=calls, seconds=seconds)
        for how, (calls, seconds) in facts.created.items()
    ]
    return tuple(sorted(found, key=lambda creation: -creation.seconds))


def _notes(facts: LogFacts, strange: int) -> Iterator[str]:
    if len(facts.libraries) > 1:
        yield f"logs of several releases of oneDNN: {', '.join(facts.libraries)}"
    if strange:
        yield f"{strange} executions with a description that isn't known"
    yield from facts.notes


def _steps_note(given: int | None, repeats: Repeats | None) -> Iterator[str]:
    """Yield how steps are known, if the file doesn't mark them."""
    if given:
        yield f"{given} steps, as given with --steps"
    elif repeats:
        order = "" if repeats.in_order else ", in other orders"
        yield (
            f"{repeats.count:,} steps: the log is the same {repeats.executions:,} executions over "
            f"and over{order}; if a step holds several of these, give their number with --steps"
        )


def _unreadable(path: Path, seen: str) -> ProfileUnreadable:
    return ProfileUnreadable(
        f"read {path}",
        seen,
        "Give a oneDNN verbose log (ONEDNN_VERBOSE=1), or a trace of torch.profiler.",
    )
