"""Time to train: published epochs × the epoch's time by what was measured. Pure.

As figure 7 of *Deep Learning Models on CPUs* (arXiv 2206.10034): a larger batch has quicker epochs
and needs more of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.contracts.base import Scalar, scalar_text
from controller.contracts.facts import OwnFact
from controller.contracts.manifests import Convergence, MeasuredConvergence
from controller.contracts.records import OutcomeOrigin, StoredResult
from controller.contracts.result import Validity
from controller.contracts.training_plan import Estimate, PlannedTraining, TrainingPlan
from controller.reports.comparability import difference
from controller.reports.epochs_law import EpochsLaw, epochs_law
from controller.reports.groups import LONGEST_REASON, Group, grouped
from controller.stats.medians import median_of_runs
from controller.stats.power_law import Predicted

SCENARIO = "training"
QUALITY: Final = "training_quality"
TOOK: Final = "time_to_target"
NOT_OF_THE_RECIPE: Final = frozenset({"seed", "steps", "warmup_steps", "policy"})
"""Knobs in which a training to the target may differ from the one whose steps were timed."""
STEP = "step_time"
BATCH = "batch_size"
ONE_RUN = "measured by one run: the interval is that of the epochs alone"
AT_BEST = "at best: no exchange of gradients between the devices is counted"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a plan is asked for; None: whatever was measured."""

    workload: str
    batch: int | None = None
    """Samples in a device's step."""
    devices: frozenset[str] | None = None
    target: float | None = None
    """The quality whose epochs are planned, of which trainings that reached it are told."""
    defaults: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    """Stack → its cells' knobs with their defaults: a cell may leave them out."""
    own: Mapping[str, OwnFact] = field(default_factory=dict)
    """What the catalogue's stacks and scenarios declare of facts."""


@dataclass(frozen=True, slots=True, eq=False)
class Timed(Group):
    """The results of a cell that may be compared with its newest one."""

    left_out: str = ""
    """What is said of the others; empty if there are none."""


def training_plan(
    convergence: Convergence, results: Iterable[StoredResult], asked: Asked
) -> TrainingPlan:
    """Return the plan of every cell and device that has VALID results, and of devices at once."""
    law = epochs_law(convergence.points)
    known = list(results)
    groups = measured(known, asked)
    reached = list(_reached(known, asked))
    single = [
        _beside(_planned([group], convergence, law), group.origin, reached, asked)
        for group in groups
    ]
    teams = [_planned(team, convergence, law) for team in _teams(groups, convergence)]
    return TrainingPlan(
        workload=asked.workload,
        source=convergence.source,
        samples=convergence.samples,
        points=convergence.points,
        own=isinstance(convergence, MeasuredConvergence),
        factor=law.law.factor,
        exponent=law.law.exponent,
        planned=(*sorted(single, key=_rank), *sorted(teams, key=_rank)),
    )


def measured(results: Iterable[StoredResult], asked: Asked) -> list[Timed]:
    """Return what was asked for, a group for each cell and its hosts, of VALID results alone.

    Only those count that may be compared with the newest one: a median over two versions of the
    software is the time of neither.
    """
    chosen = [
        result
        for result in results
        if (result.workload, result.scenario) == (asked.workload, SCENARIO)
        and STEP in result.metrics
        and result.profile is None  # else its steps are compared with nothing
        and batch_of(result.knobs) > 0
        and asked.batch in (None, batch_of(result.knobs))
        and (asked.devices is None or asked.devices.issuperset(hosts_of(result)))
    ]
    cells = [same for group in grouped(chosen, ()) for same in _by_hosts(group.valid)]
    groups = []
    for cell in cells:
        alike, left_out = _like_newest(cell, asked.own, "results")
        groups.append(Timed(alike, [], left_out=left_out))
    return groups


def _like_newest(
    results: Sequence[StoredResult], own: Mapping[str, OwnFact], name: str
) -> tuple[list[StoredResult], str]:
    """Return the results of a cell that may be compared with the newest one, and a note of others.

    own: see Asked.own. name: what the note calls them.
    """
    newest = max(results, key=lambda one: one.started_at)
    unlike = [difference((newest, one), (), own) for one in results]
    alike = [one for one, why in zip(results, unlike, strict=True) if why is None]
    reasons = [why for why in unlike if why]
    if not reasons:
        return alike, ""
    count = f"{len(reasons)} of {newest.device_label} ({reasons[0][:LONGEST_REASON]})"
    note = f"{name} left out, as they are unlike the newest one of their cell: {count}"
    return alike, note


def hosts_of(origin: OutcomeOrigin) -> dict[str, str]:
    """Return the devices that trained together, each with its name, the lead first."""
    ids, names = (origin.environment.get(fact) for fact in ("host_devices", "hosts"))
    others = {}
    if isinstance(ids, tuple) and isinstance(names, tuple):
        others = dict(zip(map(str, ids[1:]), map(str, names[1:]), strict=False))
    return {origin.device: origin.device_label, **others}


def _by_hosts(results: Iterable[StoredResult]) -> Iterable[list[StoredResult]]:
    """Return a cell's results apart by hosts: runs on several may have had other partners."""
    found: dict[frozenset[str], list[StoredResult]] = {}
    for result in results:
        found.setdefault(frozenset(hosts_of(result)), []).append(result)
    return found.values()


def _reached(results: Iterable[StoredResult], asked: Asked) -> Iterator[StoredResult]:
    """Yield the VALID trainings that reached the target."""
    for result in results:
        is_asked = (result.workload, result.scenario) == (asked.workload, QUALITY)
        reached = result.counted and result.validity is Validity.VALID and TOOK in result.metrics
        if is_asked and reached and result.knobs.get("target") == asked.target:
            yield result


def _beside(
    planned: PlannedTraining,
    origin: OutcomeOrigin,
    reached: Iterable[StoredResult],
    asked: Asked,
) -> PlannedTraining:
    """Return a device's plan with what trainings by its recipe took, if there are any."""
    defaults = asked.defaults.get(origin.stack, {})
    same = [one for one in reached if _same_recipe(origin, one, defaults)]
    if not same:
        return planned
    alike, left_out = _like_newest(same, asked.own, "trainings to the target")
    found = median_of_runs([one.metrics[TOOK].drawn for one in alike])
    took = _estimate(Predicted(found.median, found.factor))
    notes = (*planned.notes, *([left_out] if left_out else ()))
    return planned.model_copy(update={"took_s": took, "took_runs": len(alike), "notes": notes})


def _same_recipe(one: OutcomeOrigin, other: OutcomeOrigin, defaults: Mapping[str, Scalar]) -> bool:
    """Tell whether two cells of different scenarios make the same steps on one device.

    defaults: of the knobs that a cell may leave out.
    """
    here, there = ({**defaults, **cell.knobs} for cell in (one, other))
    common = (here.keys() & there.keys()) - NOT_OF_THE_RECIPE
    same_place = (one.device, one.stack) == (other.device, other.stack)
    return same_place and all(here[name] == there[name] for name in common)


def unlike_published(convergence: Convergence, knobs: Mapping[str, Scalar]) -> Iterator[str]:
    """Yield each knob of a cell that is not as in what was published."""
    for name, published in convergence.knobs.items():
        if name not in knobs:
            yield f"{name} is not known, {scalar_text(published)} published"
        elif knobs[name] != published:
            yield f"{name}={scalar_text(knobs[name])}, not {scalar_text(published)}"


def _teams(groups: Iterable[Timed], convergence: Convergence) -> Iterator[list[Timed]]:
    """Yield devices that may train at once: the quickest cell of each, of one stack and batch.

    A cell of several hosts is in none: one of them would be counted twice.
    """
    alike: dict[tuple[object, ...], dict[str, Timed]] = {}
    for group in groups:
        origin = group.origin
        if len(hosts_of(origin)) > 1:
            continue
        unlike = tuple(unlike_published(convergence, origin.knobs))
        key = (origin.virtual, origin.stack, batch_of(origin.knobs), unlike)
        quickest = alike.setdefault(key, {})
        known = quickest.get(origin.device)
        if known is None or _step(group).value < _step(known).value:
            quickest[origin.device] = group
    yield from (list(team.values()) for team in alike.values() if len(team) > 1)


def _planned(team: Sequence[Timed], convergence: Convergence, law: EpochsLaw) -> PlannedTraining:
    """Return the plan of one device, or of several that take each step together."""
    origins = [group.origin for group in team]
    hosts = [(origin, *host) for origin in origins for host in hosts_of(origin).items()]
    batch = sum(batch_of(origin.knobs) for origin in origins)
    step = max((_step(group) for group in team), key=lambda one: one.value)
    epochs = _estimate(law.at(batch))
    epoch = _times(step, Estimate(value=math.ceil(convergence.samples / batch)))
    unlike = {said: None for one in origins for said in unlike_published(convergence, one.knobs)}
    return PlannedTraining(
        devices=tuple(device for _, device, _ in hosts),
        shown=tuple(name for _, _, name in hosts),
        virtual=origins[0].virtual,
        stacks=tuple(origin.stack for origin, _, _ in hosts),
        knobs=origins[0].knobs if len(team) == 1 else {},
        cell_keys=tuple(origin.cell_key for origin, _, _ in hosts),
        batch=batch,
        runs=min(len(group.results) for group in team),
        step_s=step,
        epoch_s=epoch,
        epochs=epochs,
        # Epochs are known less well than steps: the interval of a step alone would be too narrow.
        train_s=_times(epoch, epochs) if epochs.low is not None else _product(epoch, epochs),
        unlike_published=tuple(unlike),
        notes=tuple(_notes(team, batch, convergence, law, step, epochs)),
    )


def _notes(
    team: Sequence[Timed],
    batch: int,
    convergence: Convergence,
    law: EpochsLaw,
    step: Estimate,
    epochs: Estimate,
) -> Iterator[str]:
    known = "trained" if isinstance(convergence, MeasuredConvergence) else "published"
    if not law.is_inside(batch):
        as_least = f", and taken to be those at {law.least}" if batch < law.least else ""
        beyond = f"{known} are {law.least} to {law.most}"
        yield f"epochs at batch {batch} are extrapolated{as_least}: {beyond}"
    if step.low is None and epochs.low is not None:
        yield ONE_RUN
    if len(team) > 1:
        yield AT_BEST
    yield from dict.fromkeys(group.left_out for group in team if group.left_out)


def _rank(planned: PlannedTraining) -> tuple[bool, bool, float]:
    return planned.virtual, bool(planned.unlike_published), planned.train_s.value


def batch_of(knobs: Mapping[str, Scalar]) -> int:
    """Return the samples of a step; 0 for a cell that says none."""
    given = knobs.get(BATCH)
    return given if isinstance(given, int) and not isinstance(given, bool) else 0


def _step(group: Group) -> Estimate:
    found = median_of_runs(group.samples(STEP))
    return _estimate(Predicted(found.median, found.factor))


def _estimate(known: Predicted) -> Estimate:
    if known.factor is None:
        return Estimate(value=known.value)
    return Estimate(
        value=known.value, low=known.value / known.factor, high=known.value * known.factor
    )


def _times(one: Estimate, other: Estimate) -> Estimate:
    """Return the product: independent factors, whose logarithms' errors add as squares.

    A factor without an interval is taken as known.
    """
    product = _product(one, other)
    reaches = [math.log(each.high / each.value) for each in (one, other) if each.high is not None]
    if not reaches:
        return product
    factor = math.exp(math.hypot(*reaches))
    return Estimate(value=product.value, low=product.value / factor, high=product.value * factor)


def _product(one: Estimate, other: Estimate) -> Estimate:
    """Return the product, without an interval."""
    return Estimate(value=one.value * other.value)
