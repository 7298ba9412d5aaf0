"""A farm for programs that must not wait: each call waits in a thread.

A connection of asyncio would trust what the pinned certificate has signed; see contexts. A call
that is cancelled goes on in its thread: what was sent may still be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from controller.api.answers import DeviceNow, ResultProfile, RunProfile, SweepDetail
from controller.api.farm_client import ApiFarmClient
from controller.client import NO_HOME, Farm, Results
from controller.contracts.device import DeviceHistoryEntry, RegisteredAgent
from controller.contracts.records import StoredFailure, StoredResult, SweepRecord
from controller.contracts.run import Run
from controller.contracts.sweep import Sweep
from controller.contracts.wire import RunEvent, Submission
from controller.reports.comparison import Comparison

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


_END: Final = object()


@dataclass(frozen=True, slots=True)
class AsyncResults:
    """See controller.client.Results."""

    results: Results

    async def __aiter__(self) -> AsyncIterator[StoredResult]:
        """See Results.__iter__."""
        for one in await self.to_list():
            yield one

    async def to_list(self) -> list[StoredResult]:
        """See Results.to_list."""
        return await asyncio.to_thread(self.results.to_list)

    async def to_parquet(self) -> bytes:
        """See Results.to_parquet."""
        return await asyncio.to_thread(self.results.to_parquet)

    async def to_arrow(self) -> pa.Table:
        """See Results.to_arrow."""
        return await asyncio.to_thread(self.results.to_arrow)

    async def to_pandas(self) -> pd.DataFrame:
        """See Results.to_pandas."""
        return await asyncio.to_thread(self.results.to_pandas)


@dataclass(frozen=True, slots=True)
class AsyncFarm:
    """The methods of controller.client.Farm, to be awaited, but `reader`, whose methods block."""

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

    async def events(self, sweep_id: str) -> AsyncIterator[RunEvent]:
        """See Farm.events; its thread ends at the next sign of life after it has been closed."""
        beats, alone = _beats(self.farm, sweep_id), ThreadPoolExecutor(1)
        following = asyncio.get_running_loop().run_in_executor
        try:
            while (beat := await following(alone, next, beats, _END)) is not _END:
                if isinstance(beat, RunEvent):
                    yield beat
        finally:
            alone.submit(beats.close)  # which waits for a `next` that is under way
            alone.shutdown(wait=False)

    async def submit(
        self, sweep: Sweep | Mapping[str, Any] | str, *, again: bool = False
    ) -> Submission:
        """See Farm.submit; if it is cancelled, the sweep may still be submitted."""
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


def _beats(farm: Farm, sweep_id: str) -> Generator[RunEvent | None]:
    with ApiFarmClient(NO_HOME, farm.context).beats(sweep_id) as beats:
        yield from beats
