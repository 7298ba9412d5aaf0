"""The interface of a scenario: a module of this folder with these functions and the scenario's
name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from controller.contracts.base import Scalar
from controller.contracts.result import Result
from controller.contracts.wire import Progress, StepBatch


class Scenario(Protocol):
    """Drives a workload on a backend, in a worker."""

    def run(
        self,
        workload: Any,  # noqa: ANN401 - of the kind that the scenario drives
        backend: Any,  # noqa: ANN401 - of the kind that the workload needs
        knobs: Mapping[str, Scalar],
        on_progress: Callable[[Progress], None],
        /,
    ) -> Result:
        """Measure; raises WorkerFault."""
        ...


class BatchedScenario(Scenario, Protocol):
    """A scenario whose cells can be compared, in batches of steps."""

    def run_batches(
        self,
        workload: Any,  # noqa: ANN401 - as of run
        backend: Any,  # noqa: ANN401 - as of run
        knobs: Mapping[str, Scalar],
        orders: Iterable[int],
        say: Callable[[StepBatch], None],
        /,
    ) -> Result:
        """Measure a batch for each order, and send each with `say`; raises WorkerFault."""
        ...


@runtime_checkable
class KeepingScenario(Scenario, Protocol):
    """A scenario that may keep files beside its result."""

    def run_in_folder(
        self,
        workload: Any,  # noqa: ANN401 - as of run
        backend: Any,  # noqa: ANN401 - as of run
        knobs: Mapping[str, Scalar],
        on_progress: Callable[[Progress], None],
        folder: Path,
        /,
    ) -> Result:
        """Measure; raises WorkerFault. folder: of the attempt's files, which is there."""
        ...


class BesidePlain(Protocol):
    """A scenario that compares a workload with its plain form."""

    def run_beside(
        self,
        plain: Any,  # noqa: ANN401 - as the next one, with its switches at their defaults
        workload: Any,  # noqa: ANN401 - as of Scenario.run
        build_backend: Callable[[Mapping[str, Scalar]], Any],
        knobs: Mapping[str, Scalar],
        on_progress: Callable[[Progress], None],
        /,
    ) -> Result:
        """Measure; raises WorkerFault. build_backend: builds the stack from knobs."""
        ...
