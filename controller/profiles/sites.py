"""Operations of a profile by where they run, and their counterparts in another profile. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from controller.profiles.model import KernelRow, PrimitiveRow, Profile
from controller.profiles.operations import VIEWS, keeps_layout, keeps_type, main_dtype
from controller.profiles.parts import UNEXPLAINED, WAITING, Part, Row, parts_of

REORDER = "reorder"
COPY = "aten::copy_"
CONVERSIONS = frozenset(("aten::to_mkldnn", "aten::to_dense"))
"""Kernels that convert a tensor into oneDNN's own layout, and back."""
Key = TypeVar("Key")


@dataclass(slots=True)
class Site:
    """An operation in one phase of one module, with all parts of its time."""

    phase: str = ""
    module: str = ""
    op: str = ""
    parts: list[Part] = field(default_factory=list)
    seconds: float = 0.0
    """Its seconds of a step: of all its parts."""

    def add(self, part: Part) -> None:
        """Add a part of its time."""
        self.parts.append(part)
        self.seconds += part.seconds

    @property
    def calls(self) -> float:
        """Calls in a step: of the operation itself, in all sizes; where only kernels inside it are
        recorded, of that which is called most; of primitives alone, of all."""
        if len(self.parts) == 1:  # as most are: a large profile has very many
            return self.parts[0].row.calls
        calls: dict[str, float] = defaultdict(float)
        for part in self.parts:
            if not isinstance(part.row, PrimitiveRow):
                calls[part.row.place.kernel] += part.row.calls
        if self.op in calls:
            return calls[self.op]
        return max(calls.values()) if calls else self.all_calls

    @property
    def all_calls(self) -> float:
        """Calls of all that the operation is made of, in a step."""
        return sum(part.row.calls for part in self.parts)

    @property
    def primitive(self) -> str:
        """The kind of primitive where most of its time goes, apart from reorders; may be empty."""
        found = self.by_time(lambda row: row.primitive if isinstance(row, PrimitiveRow) else "")
        kinds = [kind for kind in found if kind not in ("", REORDER)]
        return kinds[0] if kinds else ""

    def by_time(self, key_of: Callable[[Row], Key]) -> list[Key]:
        """Return what its parts are, that with most time first."""
        if len(self.parts) == 1:
            return [key_of(self.parts[0].row)]
        seconds: dict[Key, float] = defaultdict(float)
        for part in self.parts:
            seconds[key_of(part.row)] += part.seconds
        return sorted(seconds, key=lambda key: -seconds[key])

    def same(self, other: Site, are_alike: Callable[[Row, Row], bool]) -> bool:
        """Return whether its parts are those of another, with the same calls, in this order."""
        if len(self.parts) != len(other.parts):
            return False
        for part, its in zip(self.parts, other.parts, strict=True):
            row, its_row = part.row, its.row
            if row.calls != its_row.calls or not are_alike(row, its_row):
                return False
        return True

    def counted(self, key_of: Callable[[Row], Key]) -> dict[Key, int]:
        """Return the calls of what its parts are, in thousandths, so that they can be compared."""
        found: dict[Key, int] = defaultdict(int)
        for part in self.parts:
            found[key_of(part.row)] += round(1000 * part.row.calls)
        return found

    def work(self) -> Site:
        """Return its primitives apart from reorders; without any, its kernels but for views."""
        inside = [
            p for p in self.parts if isinstance(p.row, PrimitiveRow) and not is_reorder(p.row)
        ]
        kernels = [p for p in self.parts if p.row.place.kernel not in VIEWS]
        found = inside or kernels
        return self._of(found)

    def split(self, is_apart: Callable[[Row], bool]) -> tuple[Site, Site]:
        """Return the parts that are as asked, and all else of it."""
        found = [part for part in self.parts if is_apart(part.row)]
        if not found:
            return self._of([]), self
        return self._of(found), self._of([p for p in self.parts if not is_apart(p.row)])

    def _of(self, parts: list[Part]) -> Site:
        seconds = sum(part.seconds for part in parts)
        return Site(self.phase, self.module, self.op, parts, seconds)


Pair = tuple[Site | None, Site | None]
"""An operation of A and of B that do the same; None if there is none."""


def sites_of(profile: Profile) -> list[Site]:
    """Return the operations of a profile; all of its parts are in exactly one."""
    found: dict[tuple[str, str, str], Site] = {}
    for part in parts_of(profile):
        key = (part.row.place.phase, part.row.place.module, op_of(part.row))
        site = found.get(key)
        if site is None:
            site = found[key] = Site(*key)
        site.add(part)
    return list(found.values())


def paired(ones: Sequence[Site], others: Sequence[Site]) -> Iterator[Pair]:
    """Yield each operation once, with its counterpart: that of the same name, else, in the same
    phase and module, that which runs the same primitive."""
    named = {(site.phase, site.module, site.op): site for site in others}
    left: list[Site] = []
    for site in ones:
        other = named.pop((site.phase, site.module, site.op), None)
        if other is None:
            left.append(site)
        else:
            yield site, other
    alike: dict[tuple[str, str, str], list[Site]] = defaultdict(list)
    for site in named.values():
        alike[site.phase, site.module, site.primitive].append(site)
    for site in left:
        found = alike[site.phase, site.module, site.primitive] if site.primitive else []
        yield site, found.pop(0) if found else None
    yield from ((None, site) for sites in alike.values() for site in sites)


def op_of(row: Row) -> str:
    """Return the operation that a row is in; without one, its primitive, or why there is none."""
    if row.place.waits:
        return WAITING
    if row.place.op:
        return row.place.op
    if isinstance(row, PrimitiveRow):
        return f"{row.primitive} {row.direction}".strip()
    return UNEXPLAINED


def is_reorder(row: Row) -> bool:
    """Return whether a row is a primitive that only converts a layout or a type."""
    return isinstance(row, PrimitiveRow) and row.primitive == REORDER


def is_copy(row: Row) -> bool:
    """Return whether a row is torch's copy of a tensor, as into another layout or type."""
    return isinstance(row, KernelRow) and row.place.kernel == COPY and row.place.op != COPY


def is_conversion(row: Row) -> bool:
    """Return whether a row only converts a layout: a reorder, or torch's own copy of that kind."""
    if isinstance(row, PrimitiveRow):
        return is_reorder(row)
    place = row.place
    if not is_copy(row):
        return place.kernel in CONVERSIONS
    return keeps_type(place.dtypes) and not keeps_layout(place.dims, place.strides)


def dtype_of(row: Row) -> str:
    """Return a row's data type by oneDNN's name; empty if it has none."""
    return row.dtype if isinstance(row, PrimitiveRow) else main_dtype(row.place.dtypes)
