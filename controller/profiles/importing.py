"""Import of a profile from a oneDNN verbose log or a chrome trace of torch.profiler."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from controller.contracts.errors import UserError
from controller.contracts.profile import Creation, ProfileOrigin, ProfileSummary
from controller.profiles.assembling import (
    Strange,
    from_totals,
    kernel_rows,
    primitive_rows,
    summarised,
)
from controller.profiles.dates import date_of
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.reading import is_cut_gzip, open_file, read_whole_steps, words_in
from controller.profiles.repeating import Order, Repeats
from controller.profiles.verbose import MAX_EXAMPLE, LogFacts, Total, totals
from controller.profiles.verbose_columns import MARKERS

_JSON = re.compile(rb'[\[{]\s*["\[{\]}]')
"""How a trace begins; so do a few logs, behind other programs' lines."""
_LINES = tuple(b"\n" + marker + b"," for marker in MARKERS)
"""How lines of oneDNN begin; JSON has no such line, as its texts have no line ends."""


def import_file(path: Path, steps: int | None = None) -> Profile:
    """Read a file of either kind, plain or gzip; raises ProfileUnreadable.

    steps: how many it holds, if the file doesn't tell; raises UserError if it tells otherwise.
    """
    try:
        with open_file(path) as file:
            start = file.tell()
            beginning = file.read(4096).lstrip()
            file.seek(start)
            if not beginning:
                cut = "its gzip data ends before any content"
                raise _unreadable(path, cut if is_cut_gzip(file) else "it is empty")
            if not _JSON.match(beginning):
                return import_log(file, path, steps)
            try:
                return import_trace(path, steps)
            except ProfileUnreadable:
                if not words_in(path, _LINES):
                    raise
                return import_log(file, path, steps)
    except (OSError, zlib.error) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from error


def import_log(file: BinaryIO, path: Path, steps: int | None = None) -> Profile:
    """Read a verbose log; raises ProfileUnreadable if it has no execution.

    Raises UserError if it can't hold as many steps as are said.
    """
    facts, order = LogFacts(), Order()
    found = totals(file, facts, order)
    repeats = None if facts.beyond.calls else order.repeats()
    known = steps or (repeats.count if repeats else None)
    rows, strange = primitive_rows(from_totals(found), steps=known or 1)
    if not rows:
        raise _without_rows(path, facts, strange)
    if steps:
        _check_steps(path, steps, found, repeats)
    summary = ProfileSummary(
        origin=_origin_of_log(path, facts),
        steps=known,
        libraries=tuple(facts.libraries),
        isa=facts.isa,
        created=_creations(facts),
        skipped=facts.skipped + strange.calls,
        example=facts.example or strange.example,
        notes=(
            *_notes(file, path, facts, strange.calls),
            *_engines_note(rows),
            *_steps_note(steps, repeats),
        ),
    )
    return summarised(summary, [], rows)


def import_trace(path: Path, steps: int | None = None) -> Profile:
    """Read a chrome trace; raises ProfileUnreadable if it isn't torch.profiler's, and OSError.

    Raises UserError if it marks another number of steps than is said.
    """
    trace = read_whole_steps(path)
    found = trace.found
    marked = len(found.steps) if found.marked else None
    if steps and marked and steps not in (marked, marked + trace.left_out):
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


def _notes(file: BinaryIO, path: Path, facts: LogFacts, strange: int) -> Iterator[str]:
    if len(facts.libraries) > 1:
        yield f"logs of several releases of oneDNN: {', '.join(facts.libraries)}"
    if facts.headers > 1:
        several = (
            f"the log has oneDNN's first lines {facts.headers} times: it is of several processes, "
            "or of several copies of oneDNN in one, and their executions are added up"
        )
        yield "; ".join((several, *facts.disagreements))
    if strange:
        yield f"{strange} executions with a description that isn't known"
    yield from facts.notes
    if is_cut_gzip(file):
        yield f"{path.name} ends in the middle of its gzip data"


def _engines_note(rows: Iterable[PrimitiveRow]) -> Iterator[str]:
    engines = sorted({row.engine for row in rows})
    if len(engines) > 1:
        names = ", ".join(engines)[:MAX_EXAMPLE]
        yield f"its primitives ran on several engines ({names}); sums are of all of these together"


def _check_steps(
    path: Path, steps: int, found: Mapping[bytes, Total], repeats: Repeats | None
) -> None:
    """Raise UserError for steps that a log can't have: each is of whole executions, and repeats."""
    executions = sum(total.calls for total in found.values())
    if repeats and repeats.count % steps:
        count = repeats.count
        seen = (
            f"the log is the same {repeats.executions:,} executions {count:,} times, and "
            f"{count:,} is no multiple of {steps:,}"
        )
        remedy = f"Give a number that divides {count:,}, such as {_divisors_near(steps, count)}"
    elif steps > executions:
        seen = f"the log has {executions:,} executions, which are less than one a step"
        remedy = "Give another number"
    else:
        return
    raise UserError(f"import {path} with --steps {steps}", seen, f"{remedy}, or leave --steps out.")


def _divisors_near(number: int, of: int) -> str:
    """Return the divisors next to a number that is none, as words."""
    around = (range(min(number, of), 0, -1), range(number, of + 1))
    found = (next((n for n in each if of % n == 0), None) for each in around)
    return " or ".join(f"{n:,}" for n in found if n is not None)


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


def _without_rows(path: Path, facts: LogFacts, strange: Strange) -> ProfileUnreadable:
    if facts.before:
        before, marker = facts.before
        return ProfileUnreadable(
            f"read {path}",
            f"its lines have something before {marker}, such as {before[:40]!r}",
            f"Give the lines of one process, each from {marker} on.",
        )
    if strange.example:
        return ProfileUnreadable(
            f"read {path}",
            f"none of its {strange.calls:,} executions has a description that is known; the first "
            f"is {strange.example!r}",
            "Give a log as oneDNN 1.x to 3.x has printed it, or a trace of torch.profiler.",
        )
    first = f"; its first other line is {facts.example[:40]!r}" if facts.example else ""
    return _unreadable(path, f'the log contains no "primitive,exec" line{first}')


def _unreadable(path: Path, seen: str) -> ProfileUnreadable:
    return ProfileUnreadable(
        f"read {path}",
        seen,
        "Give a oneDNN verbose log (ONEDNN_VERBOSE=1), or a trace of torch.profiler.",
    )
