"""A farm for programs that must not wait: each call waits in a thread.

A connection of asyncio would trust what the pinned certificate has signed; see contexts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from controller.api.answers import DeviceNow, ResultProfile, RunProfile, SweepDetail
from controller.client import Farm, Results
from controller.contracts.device import DeviceHistoryEntry, RegisteredAgent
from controller.contracts.records import StoredFailure, StoredResult, SweepRecord
from controller.contracts.run import Run
from controller.contracts.sweep import Sweep
from controller.contracts.wire import Submission
from controller.reports.comparison import Comparison

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class AsyncResults:
    """See controller.client.Results."""

    results: Results

    async def to_list(self) -> list[StoredResult]:
        """See Results.to_list."""
        return await asyncio.to_thread(self.results.to_list)

    async def to_arrow(self) -> pa.Table:
        """See Results.to_arrow."""
        return await asyncio.to_thread(self.results.to_arrow)

    async def to_pandas(self) -> pd.DataFrame:
        """See Results.to_pandas."""
        return await asyncio.to_thread(self.results.to_pandas)


@dataclass(frozen=True, slots=True)
class AsyncFarm:
    """The methods of controller.client.Farm, to be awaited."""

    farm: Farm

    @classmethod
    def of_context(cls, name: str | None = None) -> Self:
        """See Farm.of_context."""
        return cls(Farm.of_context(name))

    def results(self, *, samples: bool = False, **conditions: Any) -> AsyncResults:  # noqa: ANN401
        """See Farm.results."""
        return AsyncResults(self.farm.results(samples=samples, **conditions))

    async def failures(self, **conditions: Any) -> list[StoredFailure]:  # noqa: ANN401
        """See Farm.failures."""
        return await asyncio.to_thread(self.farm.failures, **conditions)

    async def profiles(self, **conditions: Any) -> list[ResultProfile]:  # noqa: ANN401
        """See Farm.profiles."""
        return await asyncio.to_thread(self.farm.profiles, **conditions)

    async def profile(
        self, run_id: str, *, attempt: int | None = None, timeline: bool = False
    ) -> RunProfile:
        """See Farm.profile."""
        asked = partial(self.farm.profile, run_id, attempt=attempt, timeline=timeline)
        return await asyncio.to_thread(asked)

    async def sweeps(self) -> list[SweepRecord]:
        """See Farm.sweeps."""
        return await asyncio.to_thread(self.farm.sweeps)

    async def sweep(self, sweep_id: str) -> SweepDetail:
        """See Farm.sweep."""
        return await asyncio.to_thread(self.farm.sweep, sweep_id)

    async def runs(self, sweep_id: str) -> list[Run]:
        """See Farm.runs."""
        return await asyncio.to_thread(self.farm.runs, sweep_id)

    async def submit(
        self, sweep: Sweep | Mapping[str, Any] | str, *, again: bool = False
    ) -> Submission:
        """See Farm.submit."""
        return await asyncio.to_thread(self.farm.submit, sweep, again=again)

    async def cancel(self, sweep_id: str) -> int:
        """See Farm.cancel."""
        return await asyncio.to_thread(self.farm.cancel, sweep_id)

    async def devices(self) -> list[DeviceNow]:
        """See Farm.devices."""
        return await asyncio.to_thread(self.farm.devices)

    async def history(self, device_id: str) -> list[DeviceHistoryEntry]:
        """See Farm.history."""
        return await asyncio.to_thread(self.farm.history, device_id)

    async def agents(self) -> list[RegisteredAgent]:
        """See Farm.agents."""
        return await asyncio.to_thread(self.farm.agents)

    async def compare(
        self,
        a: str,
        b: str,
        workload: str,
        scenario: str = "training",
        **more: Any,  # noqa: ANN401
    ) -> Comparison:
        """See Farm.compare."""
        return await asyncio.to_thread(self.farm.compare, a, b, workload, scenario, **more)
