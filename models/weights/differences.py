"""In what a checkpoint differs from a model. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Shape = tuple[int, ...]
SHOWN: Final = 2
"""Differences of each kind that a line names."""


@dataclass(frozen=True, slots=True)
class ClassCount:
    """Where the number of classes shows in a model."""

    layers: tuple[str, ...]
    """Names of the tensors whose first side grows with it."""
    each: int
    """Rows of one class."""


@dataclass(frozen=True, slots=True)
class Differences:
    """What doesn't fit; names are the model's own, except of what is unexpected."""

    missing: tuple[str, ...] = ()
    """In the model and not in the checkpoint."""
    unexpected: tuple[str, ...] = ()
    """In the checkpoint and not in the model, by the checkpoint's names."""
    shapes: tuple[tuple[str, Shape, Shape], ...] = ()
    """Name, shape in the checkpoint, shape in the model."""
    twice: tuple[tuple[str, str], ...] = ()
    """Names in the checkpoint of one tensor of the model: the first and another."""
    classes: tuple[int, int] | None = None
    """Classes of the checkpoint and of the model, if these differ."""

    def lines(self) -> Iterator[str]:
        """Yield a sentence about each kind of difference."""
        if self.classes:
            yield "it tells {} classes apart, not {}".format(*self.classes)
        if self.shapes:
            shown = [f"{n} is {_sides(a)}, not {_sides(b)}" for n, a, b in self.shapes[:SHOWN]]
            yield ", ".join(shown) + _more(len(self.shapes), "tensors of another shape")
        if self.missing:
            yield f"it lacks {', '.join(self.missing[:SHOWN])}" + _more(len(self.missing))
        if self.unexpected:
            unknown = self.unexpected[:SHOWN]
            yield f"the model has no {', '.join(unknown)}" + _more(len(self.unexpected))
        if self.twice:
            shown = [f"{first} twice, also as {other}" for first, other in self.twice[:SHOWN]]
            yield f"it has {', '.join(shown)}" + _more(len(self.twice))


def differences(
    found: Mapping[str, Shape],
    ours: Mapping[str, str],
    wanted: Mapping[str, Shape],
    optional: Sequence[str],
    classes: ClassCount,
) -> Differences:
    """Compare a checkpoint with a model.

    Args:
        found: shapes in the checkpoint, by its names.
        ours: the model's name for each name that is to be used.
        wanted: shapes in the model.
        optional: endings of the model's names that may be missing.
        classes: where the number of classes shows.
    """
    first: dict[str, str] = {}
    twice = [
        (first[mine], theirs)
        for theirs, mine in ours.items()
        if first.setdefault(mine, theirs) != theirs
    ]
    given = {mine: found[theirs] for mine, theirs in first.items()}
    missing = [n for n in wanted.keys() - given.keys() if not n.endswith(tuple(optional))]
    unexpected = [theirs for theirs, mine in ours.items() if mine not in wanted]
    other = {
        name: (given[name], shape)
        for name, shape in wanted.items()
        if name in given and given[name] != shape
    }
    counts = {_count(other[n], classes.each) for n in classes.layers if n in other}
    told = next(iter(counts)) if len(counts) == 1 else None
    if told:
        other = {name: pair for name, pair in other.items() if name not in classes.layers}
    shapes = tuple((name, *pair) for name, pair in other.items())
    return Differences(
        tuple(sorted(missing)), tuple(sorted(unexpected)), shapes, tuple(twice), told
    )


def _count(shapes: tuple[Shape, Shape], each: int) -> tuple[int, int] | None:
    """Return two numbers of classes, if nothing else differs."""
    theirs, mine = shapes
    if theirs[1:] != mine[1:] or not theirs or theirs[0] % each:
        return None
    return theirs[0] // each, mine[0] // each


def _sides(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "a single number"


def _more(count: int, what: str = "others") -> str:
    rest = count - SHOWN
    return f" and {rest} {what}" if rest > 0 else ""
