"""Top-down shares from what perf stat and PerfSpect print.

perf stat prints them as metrics (`--topdown`, `-M TopdownL1,TopdownL2`), or as counts of the events
slots and topdown-*, from which level 2 follows: tools/perf/Documentation/topdown.txt of the kernel.
PerfSpect's `metrics` prints them as rows named TMA_… in its CSV. Pure but for reading the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from controller.contracts.topdown import LEVELS, TopDown
from controller.contracts.wording import faults_of
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.topdown_perf import perf_values
from controller.profiles.topdown_perfspect import perfspect_values
from controller.profiles.topdown_values import EVENTS, PARENTS, SLOTS, SMT, Values

MOST_BYTES: Final = 16 * 2**20
"""A summary has some kilobytes; intervals of hours some megabytes."""
LONGEST: Final = 2**16
"""Characters of a line; neither tool prints longer ones."""


def read_topdown(path: Path) -> TopDown:
    """Read a file of either tool; raises ProfileUnreadable."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(str(path), error.strerror or str(error)) from error
    return topdown_in(data, str(path))


def topdown_in(data: bytes, what: str, source: str | None = None) -> TopDown:
    """Return the shares that either tool has printed; raises ProfileUnreadable.

    what: what is read, for errors. source: as shares are to say; by default, tool and file.
    """
    if len(data) > MOST_BYTES:
        raise _unreadable(what, f"it has more than {MOST_BYTES >> 20} MiB")
    lines = [line for line in data.decode(errors="replace").splitlines() if len(line) < LONGEST]
    for tool, reader in (("perf", perf_values), ("PerfSpect", perfspect_values)):
        values, told = reader(lines)
        used = _whole(values) if SLOTS in values else _alike(values)
        if shares := _shares(used):
            notes = [*told, *_notes(values, used)]
            return _topdown(what, source or f"{tool}, {Path(what).name}", shares, notes)
    raise _unreadable(what, "it has no top-down metric, and no counts of both slots and topdown-*")


def _whole(values: Values) -> Values:
    """Return the counts of intervals, or groups of cores, in which all of level 1 was counted.

    An event of level 2 that was not counted in each of them is left out, as is one that was counted
    in another number than slots: in all slots, it would have another share.
    """
    same = {
        name: each
        for name, each in values.items()
        if len(each) == len(values[SLOTS]) and any(map(isfinite, each))
    }
    first = [each for name, each in same.items() if EVENTS.get(name) not in PARENTS]
    whole = [i for i, counts in enumerate(zip(*first, strict=True)) if all(map(isfinite, counts))]
    kept = {name: [each[i] for i in whole] for name, each in same.items()}
    return {name: each for name, each in kept.items() if each and all(map(isfinite, each))}


def _alike(values: Values) -> Values:
    """Return the percents, without those of level 2 of which there are fewer than of the parent."""
    finite = {name: [*filter(isfinite, each)] for name, each in values.items()}
    counted = {name: len(each) for name, each in finite.items()}
    fewest = {name: counted.get(PARENTS.get(name, ""), 0) for name in finite}
    return {name: each for name, each in finite.items() if each and counted[name] >= fewest[name]}


def _shares(values: Values) -> dict[str, float]:
    """Return each node's share of the slots: its events over slots, or else its mean percent."""
    if SLOTS not in values:
        means = {name: sum(each) / len(each) for name, each in values.items()}
        return {name: mean / 100 for name, mean in means.items() if name not in EVENTS}
    slots = sum(values[SLOTS])
    counts = {name: sum(each) for name, each in values.items() if name != SLOTS}
    return {EVENTS[name]: count / slots for name, count in counts.items()} if slots > 0 else {}


def _notes(values: Values, used: Values) -> list[str]:
    """Return notes on the values that shares are computed from. used: those not left out."""
    most = max(map(len, used.values()))
    alike = "" if SLOTS in values else ", each of which counts alike"
    notes = [f"means of {most} intervals or groups of cores{alike}"] if most > 1 else []
    partly = [n for n, each in values.items() if n not in used and any(map(isfinite, each))]
    if partly:
        names = ", ".join(EVENTS.get(name, name) for name in partly)
        others = "not counted in the same intervals, or groups of cores, as level 1"
        notes.append(f"left out {names}: {others}")
    total, kept = (sum(map(len, each.values())) for each in (values, used))
    if kept < total:  # perf prints `nan` for a core that was idle
        told = "not counted, not finite, or beside such a value"
        notes.append(f"left out {total - kept} of {total} values: {told}")
    return notes


def _topdown(what: str, source: str, shares: Mapping[str, float], notes: Sequence[str]) -> TopDown:
    """Return shares of the slots that the core's other thread left; raises ProfileUnreadable."""
    taken = shares.get(SMT, 0.0)
    shares = {name: share for name, share in shares.items() if name != SMT}
    if 0 < taken < 1:
        shares = {name: share / (1 - taken) for name, share in shares.items()}
        note = f"without the {taken:.1%} of slots that the core's other thread took"
        notes = [*notes, note]
    try:
        return TopDown(source=source, shares=_completed(shares), notes=tuple(notes))
    except ValidationError as error:
        fault = faults_of(error)[0]
        where = ".".join(map(str, fault.place))
        raise _unreadable(what, f"{where}: {fault.said}".removeprefix(": ")) from error


def _completed(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the shares with the other node of each pair of which one is counted, in order."""
    known = dict(shares)
    for parent, (first, second) in ((p, c) for p, c in LEVELS.items() if p in shares):
        for told, other in ((first, second), (second, first)):
            if told in shares and other not in shares:
                known[other] = shares[parent] - shares[told]
    ordered = [*LEVELS, *(name for children in LEVELS.values() for name in children)]
    return {name: known[name] for name in ordered if name in known}


def _unreadable(what: str, seen: str) -> ProfileUnreadable:
    return ProfileUnreadable(
        f"read {what}",
        seen,
        "Give the output of `perf stat -x, --topdown` or `perf stat -j -M TopdownL1,TopdownL2`, "
        "or the metrics CSV of PerfSpect.",
    )
