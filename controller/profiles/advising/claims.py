"""What a rule of advice is given, and what it returns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from controller.contracts.advice import Remedy, Rule
from controller.contracts.base import Scalar
from controller.contracts.peaks import COPY, UPDATE
from controller.contracts.profile import ProfileOrigin, ProfileSummary
from controller.profiles.counts import calls_text
from controller.profiles.model import LOAD, KernelRow, Place, PrimitiveRow, Profile
from controller.profiles.operations import GEMMS
from controller.profiles.parts import Part, part_of, parts_of
from controller.profiles.roofs import is_narrowed
from controller.profiles.sites import dtype_of

PRODUCTS = frozenset(("convolution", "deconvolution", "inner_product", "matmul", "rnn"))
"""Primitives that matrix units compute."""
SWITCHES = frozenset(
    (
        *("skip_frozen", "frozen_bn", "pointwise", "packed_levels"),
        *("head_convolutions", "focal_loss", "matching"),
    )
)
"""Knobs that benchfarm's own RetinaNet has, and torchvision's refuses
(models/retinanet/implementations.py)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a rule says that a change saves: of each part, by its index, a share of its time."""

    rule: Rule
    evidence: str
    remedy: Remedy
    shares: Mapping[int, tuple[float, float]]
    """Index of a part → least and most of its time that is saved, as shares."""


@dataclass(frozen=True)
class Seen:
    """A profile as the rules see it: its parts, by index, and what is known beside."""

    profile: Profile

    @cached_property
    def parts(self) -> Sequence[Part]:
        """The parts of the step, the last of them loading, if that is beside the step."""
        load_s = self.profile.summary.load_s
        place = Place(phase=LOAD)
        row = KernelRow(place=place, calls=1.0, self_s=load_s or 0.0, total_s=load_s or 0.0)
        return [*parts_of(self.profile), *([part_of(row)] if load_s else [])]

    @property
    def in_step(self) -> range:
        """The indices of the step's own parts: all but loading that is beside it."""
        return range(len(self.parts) - (1 if self.summary.load_s else 0))

    @property
    def summary(self) -> ProfileSummary:
        """The summary of the profile."""
        return self.profile.summary

    @cached_property
    def origin(self) -> ProfileOrigin:
        """Where it comes from; empty if nothing tells."""
        return self.summary.origin or ProfileOrigin()

    @cached_property
    def knobs(self) -> Mapping[str, Scalar]:
        """The knobs of its cell that can be changed; none if nothing tells."""
        found = self.origin.knobs or {}
        refused = SWITCHES if found.get("implementation") == "torchvision" else ()
        return {name: value for name, value in found.items() if name not in refused}

    def has_other(self, knob: str, value: Scalar) -> bool:
        """Return whether the cell has a knob, and it has another value than this."""
        return knob in self.knobs and self.knobs[knob] != value

    def peak(self, dtype: str) -> float | None:
        """Return the measured peak of a data type, FLOP/s; of MOVING, bytes/s; None if unknown."""
        if (peaks := self.summary.peaks) is None:
            return None
        moving = {COPY: peaks.copy_bytes, UPDATE: peaks.update_bytes}
        return moving[dtype] if dtype in moving else peaks.gemm_flops.get(dtype)

    def where(self, is_so: Callable[[Part], bool]) -> list[int]:
        """Return the indices of parts that take time and are as asked."""
        return [i for i, part in enumerate(self.parts) if part.seconds > 0 and is_so(part)]

    def seconds(self, indices: Iterable[int]) -> float:
        """Return the time of some parts, seconds."""
        return sum(self.parts[i].seconds for i in indices)

    def calls(self, indices: Iterable[int]) -> float:
        """Return the calls of some parts."""
        return sum(self.parts[i].row.calls for i in indices)

    def counted(self, indices: Iterable[int]) -> str:
        """Return the calls of some parts, formatted."""
        return calls_text(self.calls(indices))

    @cached_property
    def products(self) -> Mapping[str, list[int]]:
        """Data type → matrix products and convolutions in it, where it is that of their factors."""
        found: dict[str, list[int]] = {}
        for i in self.where(is_product):
            row = self.parts[i].row
            if not (isinstance(row, PrimitiveRow) and is_narrowed(row)):
                found.setdefault(dtype_of(row), []).append(i)
        return found

    @cached_property
    def main_dtype(self) -> str:
        """The data type in which products take most time; empty without any."""
        found = self.products
        return max(found, key=lambda dtype: self.seconds(found[dtype]), default="")

    @cached_property
    def is_bf16(self) -> bool:
        """Whether the run is one of bf16: by its knob, else by what its products mostly are."""
        precision = self.knobs.get("precision")
        return self.main_dtype == "bf16" if precision is None else precision == "bf16"


def is_product(part: Part) -> bool:
    """Return whether a part is a matrix product or a convolution."""
    row = part.row
    if isinstance(row, PrimitiveRow):
        return row.primitive in PRODUCTS
    return (row.place.kernel in GEMMS or row.flops is not None) and not row.primitive_s


def named(part: Part, *names: str) -> bool:
    """Return whether a part is a kernel of one of these names, or is in such an operation."""
    row = part.row
    return isinstance(row, KernelRow) and (row.place.kernel in names or row.place.op in names)


def whole(
    indices: Iterable[int], low: float = 0.0, high: float = 1.0
) -> dict[int, tuple[float, float]]:
    """Return the same least and most share of some parts."""
    return dict.fromkeys(indices, (low, high))


def knob(name: str, value: Scalar) -> Remedy:
    """Return a change of a knob."""
    return Remedy(kind="knob", name=name, value=value)


def setting(words: str) -> Remedy:
    """Return a change in words."""
    return Remedy(kind="setting", value=words)
