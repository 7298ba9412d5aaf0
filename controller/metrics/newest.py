"""The newest result of each kind in memory: loaded from the store, updated by events."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import NamedTuple, Self

from controller.contracts.audit import audit_of
from controller.contracts.capability import Capability
from controller.contracts.catalog import Catalog
from controller.contracts.manifests import QualityTarget
from controller.contracts.records import REPEATS_KEPT, NewestResult
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.run import OutcomeRecord, Run
from controller.contracts.suite_version import quality_target
from controller.contracts.work import Work, work_of
from controller.metrics.names import NO_PRECISION
from controller.stats.medians import MedianOfRuns, median_of_runs


@dataclass(frozen=True, slots=True)
class Repeat:
    """What one VALID run measured."""

    sweep_id: str
    values: Mapping[str, float]
    """Metric → reported value."""
    ranked: tuple[float, ...]
    """Raw samples of the metric that ranks its scenario."""


Repeats = deque[Repeat]
"""The newest VALID results of a cell on a device, by age."""


def new_repeats() -> Repeats:
    """Return none yet; it keeps as many as the store gives back."""
    return deque(maxlen=REPEATS_KEPT)


class ResultKey(NamedTuple):
    """The identity of a series of results; the values of names.RESULT_LABELS, in order."""

    device: str
    workload: str
    stack: str
    scenario: str
    precision: str
    work: str


@dataclass(frozen=True)  # without slots: `ranked` is kept
class Newest:
    """The newest results of one key, whatever their other knobs."""

    work: Work
    latest: NewestResult | None = None
    """VALID or not, but not of a profiled run."""
    valid: NewestResult | None = None
    """The newest with the metric that ranks the scenario; without one, the newest."""
    repeats: tuple[Repeat, ...] = ()
    """The VALID runs of its cell and sweep, by age, with the metric that ranks the scenario."""
    checked: tuple[Repeat, ...] = ()
    """Those of the newest VALID result without that metric, such as an accuracy run."""
    profiled: NewestResult | None = None
    """VALID, of a profiled run, with a profile."""
    judged: NewestResult | None = None
    """The newest, VALID or not, with the quality that its work has a target of."""

    @property
    def medians(self) -> Mapping[str, float]:
        """Metric → median of the values that the repeats report, else those without a rank."""
        return {**_medians(self.checked), **_medians(self.repeats)}

    @cached_property
    def ranked(self) -> MedianOfRuns | None:
        """The median in the metric that ranks the scenario; None if it wasn't measured.

        It is computed once, since its interval takes long.
        """
        runs = tuple(repeat.ranked for repeat in self.repeats if repeat.ranked)
        return median_of_runs(runs) if runs else None

    def followed_by(
        self, result: NewestResult, repeats: tuple[Repeat, ...], *, judged: bool
    ) -> Self:
        """Return the newest results after a further result; judged: it has a quality target."""
        valid = result.validity is Validity.VALID
        if result.profiled:
            return replace(self, profiled=result) if valid and result.profile else self
        told = replace(self, latest=result, judged=result if judged else self.judged)
        if valid and result.ranked:
            return replace(told, valid=result, repeats=repeats)
        if valid:
            return replace(told, valid=self.valid if self.repeats else result, checked=repeats)
        return told


def target_of(result: NewestResult, catalog: Catalog) -> QualityTarget | None:
    """Return the target of the quality that a result measured; None if there is none."""
    workload = catalog.workloads.get(result.workload)
    target = quality_target(workload, result.knobs) if workload else None
    return target if target and target.metric in result.metrics else None


def _medians(repeats: Sequence[Repeat]) -> dict[str, float]:
    told = {name for repeat in repeats for name in repeat.values}
    return {
        name: median(r.values[name] for r in repeats if name in r.values) for name in sorted(told)
    }


class NewestResults:
    """The newest results, added in their order; a snapshot is a copy."""

    def __init__(self, catalog: Catalog, results: Iterable[NewestResult] = ()) -> None:
        self._catalog = catalog
        self._by_key: dict[ResultKey, Newest] = {}
        self._repeats: defaultdict[tuple[str, str], Repeats] = defaultdict(new_repeats)
        for result in results:
            self.add(result)

    def add(self, result: NewestResult) -> None:
        """Add a result that is newer than all before."""
        workload, stack, scenario = result.workload, result.stack, result.scenario
        work = work_of(self._catalog, workload, scenario, stack, result.knobs)
        precision = result.precision or NO_PRECISION
        key = ResultKey(result.device, workload, stack, scenario, precision, work.key)
        known = self._by_key.get(key) or Newest(work)
        judged = target_of(result, self._catalog) is not None
        self._by_key[key] = known.followed_by(result, self._repeated(result), judged=judged)

    def snapshot(self) -> Mapping[ResultKey, Newest]:
        """Return the newest results; later results don't change the returned mapping."""
        return dict(self._by_key)

    def _repeated(self, result: NewestResult) -> tuple[Repeat, ...]:
        """Keep a result's values; return them with those of its cell and sweep, by age."""
        if result.profiled or result.validity is not Validity.VALID:
            return ()
        values = {name: measured.value for name, measured in result.metrics.items()}
        known = self._repeats[result.device, result.cell_key]
        known.append(Repeat(result.sweep_id, values, result.ranked))
        return tuple(repeat for repeat in known if repeat.sweep_id == result.sweep_id)


class DelegateKey(NamedTuple):
    """The identity of a series of delegates; the values of names.DELEGATE_LABELS, in order."""

    device: str
    workload: str
    stack: str
    delegate: str
    precision: str


class NewestCapabilities:
    """The newest capabilities, added in their order; a snapshot is a copy."""

    def __init__(self, capabilities: Iterable[Capability] = ()) -> None:
        self._by_key: dict[DelegateKey, Capability] = {}
        for capability in capabilities:
            self.add(capability)

    def add(self, capability: Capability) -> None:
        """Add a capability that is newer than all before, whatever their times: those are by the
        head's clock, which may have been set."""
        key = DelegateKey(
            capability.device,
            capability.workload,
            capability.stack,
            capability.delegate,
            capability.numerics or NO_PRECISION,
        )
        self._by_key[key] = capability

    def snapshot(self) -> Mapping[DelegateKey, Capability]:
        """Return the newest capabilities; later runs don't change the returned mapping."""
        return dict(self._by_key)


def newest_of(run: Run, record: OutcomeRecord, catalog: Catalog) -> NewestResult | None:
    """Return an outcome as a newest result; None if it doesn't count or has no measurement.

    A paired comparison gives None, since it is not a result of one cell, and so does an audit's
    run. catalog: says which metric ranks it.
    """
    cell = run.cell
    if not record.counted or not isinstance(record.outcome, Result) or cell.versus:
        return None
    if audit_of(cell.knobs):
        return None
    ranked = record.outcome.metrics.get(catalog.ranked_by(cell.scenario))
    return NewestResult(
        device=run.attempts[record.attempt - 1].device_id,
        sweep_id=run.sweep_id,
        cell_key=cell.key,
        workload=cell.workload,
        stack=cell.stack,
        scenario=cell.scenario,
        knobs=cell.knobs,
        profiled=bool(cell.profiled),
        validity=record.outcome.validity,
        recorded_at=record.recorded_at,
        metrics={
            name: Measurement(value=measured.value, unit=measured.unit)
            for name, measured in record.outcome.metrics.items()
        },
        ranked=ranked.drawn if ranked else (),
        profile=record.outcome.profile,
    )
