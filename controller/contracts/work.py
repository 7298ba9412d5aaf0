"""What a cell computes, whatever it runs on: only results of the same work are compared. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from controller.contracts.base import Scalar, digest
from controller.contracts.catalog import Catalog
from controller.contracts.manifests import Knob
from controller.contracts.records import PRECISION_KNOBS
from controller.contracts.sweep import Side

BATCH_SIZE: Final = "batch_size"
"""The knob of a workload that says how many samples a step has."""
KEY_LENGTH = 8
"""Hex digits of a work's key: a farm measures far fewer than 10,000 works."""


class Work(NamedTuple):
    """What must agree between two results before one is divided by the other."""

    workload: str
    scenario: str
    problem: tuple[tuple[str, Scalar], ...]
    """The knobs that say what is computed, with their values."""

    @property
    def key(self) -> str:
        """The first digits of the SHA-256 of its canonical JSON."""
        return digest([self.workload, self.scenario, dict(self.problem)], KEY_LENGTH)

    def title(self, catalog: Catalog) -> str:
        """Return workload and scenario, with the knobs that are not at their defaults."""
        workload = catalog.workloads.get(self.workload)
        scenario = catalog.scenarios.get(self.scenario)
        known = {**(workload.knobs if workload else {}), **(scenario.knobs if scenario else {})}
        set_ = (f"{n}={v}" for n, v in self.problem if n not in known or known[n].default != v)
        return " ".join((self.workload, self.scenario, *set_))


def work_of(
    catalog: Catalog, workload: str, scenario: str, stack: str, knobs: Mapping[str, Scalar]
) -> Work:
    """Return what a cell computes.

    These knobs say it, except for the number format: those of the workload, those of the scenario
    that their manifest marks as work, and those of a user's program that its manifest doesn't mark
    as none. Model files of one task are held to one quality target, and their accuracy stands
    beside their speed, so number formats are compared. Of a workload that the catalogue no longer
    has, every knob counts.
    """
    told = _work_knobs(catalog, workload, scenario, stack)
    chosen = [n for n in (sorted(knobs) if told is None else told) if n in knobs]
    kinds = dict(told or {})
    problem = tuple((n, _as(kinds.get(n), knobs[n])) for n in chosen if n not in PRECISION_KNOBS)
    return Work(workload, scenario, problem)


def other_work(
    catalog: Catalog, workload: str, scenario: str, a: Side, b: Side
) -> dict[str, tuple[Scalar, Scalar]]:
    """Return the knobs by which two sides of a comparison do other work, with both values.

    A workload's switches change how a step is computed and never what; comparing them is what
    comparisons are for. Its batch size is none of these knobs either: steps of unlike batches are
    compared by samples per second. Nothing is known of a workload that the catalogue no longer has.
    """
    own = catalog.workloads.get(workload)
    if own is None:
        return {}
    how = {*own.switches, *({BATCH_SIZE} & own.knobs.keys())}
    one, other = (
        dict(work_of(catalog, workload, scenario, side.stack, side.knobs).problem)
        for side in (a, b)
    )
    return {
        name: (value, other[name])
        for name, value in one.items()
        if name in other and other[name] != value and name not in how
    }


def _work_knobs(
    catalog: Catalog, workload: str, scenario: str, stack: str
) -> Mapping[str, Knob] | None:
    own, driven = catalog.workloads.get(workload), catalog.scenarios.get(scenario)
    if own is None:
        return None
    program = catalog.stacks.get(stack)
    of_program = program.knobs if program and program.command else {}
    return {
        **own.knobs,
        **{n: knob for n, knob in (driven.knobs if driven else {}).items() if knob.work},
        **{n: knob for n, knob in of_program.items() if knob.work is not False},
    }


def _as(knob: Knob | None, value: Scalar) -> Scalar:
    """Return a value as its knob's type: a float may be given as an int."""
    return float(value) if knob is not None and knob.type == "float" else value
