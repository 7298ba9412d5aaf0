"""The newest result of each kind in memory: loaded from the store, updated by events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from controller.contracts.capability import Capability
from controller.contracts.records import NewestResult, precision_of
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.run import OutcomeRecord, Run
from controller.metrics.names import NO_PRECISION


class ResultKey(NamedTuple):
    """The identity of a series of results; the values of names.RESULT_LABELS, in order."""

    device: str
    workload: str
    stack: str
    scenario: str
    precision: str


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest results of one key, whatever their other knobs."""

    latest: NewestResult
    """VALID or not."""
    valid: NewestResult | None
    profiled: NewestResult | None = None
    """VALID, with a profile."""

    def followed_by(self, result: NewestResult) -> Self:
        """Return the newest results after a further result."""
        valid = result if result.validity is Validity.VALID else self.valid
        profiled = valid if valid and valid.profile else self.profiled
        return type(self)(latest=result, valid=valid, profiled=profiled)


class NewestResults:
    """The newest results, added in their order; a snapshot is a copy."""

    def __init__(self, results: Iterable[NewestResult] = ()) -> None:
        self._by_key: dict[ResultKey, Newest] = {}
        for result in results:
            self.add(result)

    def add(self, result: NewestResult) -> None:
        """Add a result that is newer than all before."""
        key = ResultKey(
            result.device,
            result.workload,
            result.stack,
            result.scenario,
            result.precision or NO_PRECISION,
        )
        known = self._by_key.get(key) or Newest(latest=result, valid=None)
        self._by_key[key] = known.followed_by(result)

    def snapshot(self) -> Mapping[ResultKey, Newest]:
        """Return the newest results; later results don't change the returned mapping."""
        return dict(self._by_key)


class DelegateKey(NamedTuple):
    """The identity of a series of delegates; the values of names.DELEGATE_LABELS, in order."""

    device: str
    workload: str
    stack: str
    delegate: str
    precision: str


class NewestCapabilities:
    """The newest capabilities, added in any order; a snapshot is a copy."""

    def __init__(self, capabilities: Iterable[Capability] = ()) -> None:
        self._by_key: dict[DelegateKey, Capability] = {}
        for capability in capabilities:
            self.add(capability)

    def add(self, capability: Capability) -> None:
        """Add a run's capability; one older than the known one changes nothing."""
        key = DelegateKey(
            capability.device,
            capability.workload,
            capability.stack,
            capability.delegate,
            capability.numerics or NO_PRECISION,
        )
        known = self._by_key.get(key)
        if known is None or known.at <= capability.at:
            self._by_key[key] = capability

    def snapshot(self) -> Mapping[DelegateKey, Capability]:
        """Return the newest capabilities; later runs don't change the returned mapping."""
        return dict(self._by_key)


def newest_of(run: Run, record: OutcomeRecord) -> NewestResult | None:
    """Return an outcome as a newest result; None if it doesn't count or has no measurement.

    A paired comparison gives None, since it is not a result of one cell.
    """
    cell = run.cell
    if not record.counted or not isinstance(record.outcome, Result) or cell.versus:
        return None
    return NewestResult(
        device=run.attempts[record.attempt - 1].device_id,
        workload=cell.workload,
        stack=cell.stack,
        scenario=cell.scenario,
        precision=precision_of(cell.knobs),
        validity=record.outcome.validity,
        recorded_at=record.recorded_at,
        metrics={
            name: Measurement(value=measured.value, unit=measured.unit)
            for name, measured in record.outcome.metrics.items()
        },
        profile=record.outcome.profile,
    )
