"""Two profiles in the same detail: what only one of them records is no difference. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from controller.contracts.errors import UserError
from controller.profiles.model import LOAD, KernelRow, Place, PrimitiveRow, Profile
from controller.profiles.parts import part_of, parts_of

NAMES = ("A", "B")
NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class SameDetail:
    """Two profiles that can be compared, and in which words each of them was changed for it."""

    one: Profile
    other: Profile
    notes: tuple[str, ...] = ()


def in_same_detail(one: Profile, other: Profile, names: tuple[str, str] = NAMES) -> SameDetail:
    """Return two profiles in the detail that both have.

    names: of the profiles, for the error. Raises UserError if they have nothing in common: one has
    primitives alone, and the other none.
    """
    profiles = [one, other]
    logs = [_has_primitives_alone(profile) for profile in profiles]
    if logs[0] != logs[1]:
        return _primitives_alone(one, other, NAMES[logs.index(True)], names)
    notes = []
    untold = [_has_no_primitives(profile) for profile in profiles]
    if not all(logs) and untold[0] != untold[1]:
        side = untold.index(False)
        profiles[side] = _folded(profiles[side])
        notes.append(
            f"{NAMES[1 - side]} doesn't tell primitives: in {NAMES[side]}, their time is in the "
            "kernels that ran them, too"
        )
    for side in (0, 1):
        if _loads_in_its_step(profiles[side]) and profiles[1 - side].summary.load_s is not None:
            profiles[side] = _loading_beside(profiles[side])
            notes.append(
                f"{NAMES[side]} was traced with the loading of its batches: here it is beside the "
                "step, as in the other"
            )
    return SameDetail(profiles[0], profiles[1], tuple(notes))


def _has_primitives_alone(profile: Profile) -> bool:
    """Return whether a profile is of a oneDNN log, which tells no places."""
    rows = profile.primitives
    return bool(rows) and not profile.kernels and all(row.place == NOWHERE for row in rows)


def _has_no_primitives(profile: Profile) -> bool:
    """Return whether nothing tells of primitives; a verbose run without any tells that much."""
    return not profile.primitives and profile.summary.verbose_step_s is None


def _primitives_alone(one: Profile, other: Profile, log: str, names: tuple[str, str]) -> SameDetail:
    for profile in (one, other):
        if not profile.primitives:
            raise UserError(
                f"diff {names[0]} and {names[1]}",
                f"{names[NAMES.index(log)]} has primitives alone, and the other has none of them",
                "Compare a log with another log, or with a profile of `benchfarm profile run`.",
            )
    note = (
        f"{log} has primitives alone, so only primitives are compared, wherever they ran: the "
        "whole is their sum"
    )
    return SameDetail(_without_places(one), _without_places(other), (note,))


def _without_places(profile: Profile) -> Profile:
    """Return a profile's primitives as a log has them: whole, with times as they were watched."""
    scale = profile.summary.scale or 1.0
    told = {"step_s": None, "traced_step_s": None, "load_s": None, "op_threads": 1, "scale": None}
    return Profile(
        profile.summary.model_copy(update=told),
        kernels=(),
        primitives=tuple(_as_logged(row, scale) for row in profile.primitives),
    )


def _as_logged(row: PrimitiveRow, scale: float) -> PrimitiveRow:
    watched = 1 / (scale * (row.kept or 1.0))  # of none of it, the time is lost
    if row.place == NOWHERE and watched == 1.0:
        return row
    seconds, least_s = row.seconds * watched, row.least_s * watched
    return replace(row, place=NOWHERE, seconds=seconds, least_s=least_s, kept=1.0)


def _folded(profile: Profile) -> Profile:
    """Return a profile whose kernels have the time of their primitives themselves."""
    inside: dict[Place, float] = defaultdict(float)
    for primitive in profile.primitives:
        inside[primitive.place] += primitive.seconds
    kernels = [
        replace(row, self_s=part_of(row).seconds + inside.pop(row.place, 0.0), primitive_s=0.0)
        for row in profile.kernels
    ]
    return replace(profile, kernels=(*kernels, *_kernels_of(inside)), primitives=())


def _kernels_of(inside: dict[Place, float]) -> Iterator[KernelRow]:
    """Yield a kernel for primitives at a place that has none, so that no time is lost."""
    for place, seconds in inside.items():
        yield KernelRow(place=place, calls=1.0, self_s=seconds, total_s=seconds)


def _loads_in_its_step(profile: Profile) -> bool:
    """Return whether the step is that of a trace with a phase of loading; a timed step that waits
    for its batch does so in training, too."""
    summary = profile.summary
    if summary.step_s is not None or summary.load_s is not None:
        return False
    return any(part.row.place.phase == LOAD for part in parts_of(profile))


def _loading_beside(profile: Profile) -> Profile:
    loading_s = sum(part.seconds for part in parts_of(profile) if part.row.place.phase == LOAD)
    traced_s = profile.summary.traced_step_s
    rest_s = None if traced_s is None else max(0.0, traced_s - loading_s)
    told = {"load_s": loading_s, "traced_step_s": rest_s}
    return replace(
        profile,
        summary=profile.summary.model_copy(update=told),
        kernels=tuple(row for row in profile.kernels if row.place.phase != LOAD),
        primitives=tuple(row for row in profile.primitives if row.place.phase != LOAD),
    )
