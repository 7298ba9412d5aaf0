"""A farm for programs: typed, over its API, blocking or not; docs/api.md has an example.

farm = Farm.of_context()
table = farm.results(workload="retinanet_resnext50", validity="VALID").to_arrow()
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from controller.api.answers import (
    AgentPage,
    DeviceNow,
    DevicePage,
    ResultProfile,
    RunProfile,
    SweepDetail,
)
from controller.api.answers import ProfilePage as Profiles
from controller.api.connection import Ask, Connection
from controller.api.contexts import USUAL, FarmContext, read_context
from controller.api.farm_client import ApiFarmClient
from controller.api.queries import ResultConditions
from controller.api.reader import ApiReader, params_of
from controller.contracts.base import Contract, Scalar, canonical_json
from controller.contracts.device import DeviceHistoryEntry, RegisteredAgent
from controller.contracts.errors import UserError
from controller.contracts.outcome_filter import OutcomeFilter
from controller.contracts.records import StoredFailure, StoredResult, SweepRecord
from controller.contracts.run import Run
from controller.contracts.sweep import Sweep
from controller.contracts.sweep_file import parse_sweep
from controller.contracts.wire import RunEvent, Submission
from controller.contracts.wording import faults_of
from controller.reports.comparison import Comparison
from controller.runtime.home import Home
from controller.runtime.options import CONTEXT_VARIABLE

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Answer = TypeVar("Answer", bound=Contract)
NO_HOME: Final = Home(Path("/nonexistent"))
"""A farm elsewhere has no home here."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results that some conditions keep; read when they are asked for."""

    farm: Farm
    wanted: OutcomeFilter
    samples: bool = False

    def __iter__(self) -> Iterator[StoredResult]:
        """Yield them, the counted ones first, each oldest first; raises UserError."""
        return iter(self.to_list())

    def to_list(self) -> list[StoredResult]:
        """Return them with their raw samples, as `__iter__` does."""
        with closing(self.farm.reader()) as reader:
            return reader.selected_results(self.wanted)[0]

    def to_parquet(self) -> bytes:
        """Return them as a Parquet file, see `to_arrow`; raises UserError."""
        file = io.BytesIO()
        with (
            closing(self.farm.reader()) as reader,
            reader.table(self.wanted, samples=self.samples) as (_, pieces),
        ):
            file.writelines(pieces)
        return file.getvalue()

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each metric of a result; raises UserError.

        Its columns are those of controller.reports.arrow.SCHEMA.
        """
        # Late: pyarrow, which takes long to load.
        import pyarrow.parquet as pq

        return pq.read_table(io.BytesIO(self.to_parquet()))

    def to_pandas(self) -> pd.DataFrame:
        """Return the table of `to_arrow` as a data frame; raises UserError without pandas."""
        try:
            # Late: no dependency of benchfarm.
            import pandas as pd  # noqa: F401
        except ImportError as error:
            remedy = "Install pandas, or use `to_arrow`."
            raise UserError("make a data frame", "pandas is not installed", remedy) from error
        return self.to_arrow().to_pandas()


@dataclass(frozen=True, slots=True)
class Farm:
    """A farm over its API. Its methods raise UserError for what the farm refuses, and
    FarmUnavailable if it does not answer; it may be used in several threads."""

    context: FarmContext
    connection: Connection = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "connection", Connection(self.context))

    @classmethod
    def of_context(cls, name: str | None = None) -> Self:
        """Return the farm of a context of `benchfarm login`; raises UserError if there is none.

        name: usually that of BENCHFARM_CONTEXT, else `default`.
        """
        meant = name or os.environ.get(CONTEXT_VARIABLE) or USUAL
        return cls(read_context(meant, os.environ))

    def reader(self) -> ApiReader:
        """Return what reads all that is stored; its user closes it."""
        return ApiReader(self.context, lambda _: None)

    def results(self, *, samples: bool = False, **conditions: Any) -> Results:  # noqa: ANN401
        """Return the results that fulfil all conditions, which docs/api.md lists.

        samples: whether tables have raw samples. Raises UserError for an unknown condition.
        """
        return Results(self, _filter(conditions), samples)

    def failures(self, **conditions: Any) -> list[StoredFailure]:  # noqa: ANN401
        """Return the failed attempts that fulfil all conditions, oldest first."""
        with closing(self.reader()) as reader:
            return reader.selected_failures(_filter(conditions))[0]

    def profiles(self, **conditions: Any) -> list[ResultProfile]:  # noqa: ANN401
        """Return the profiles of results that fulfil all conditions, newest first."""
        asked = params_of(_filter(conditions))
        return self.connection.run(self.connection.words.every(Profiles, "/profiles", asked))

    def profile(
        self, run_id: str, *, attempt: int | None = None, timeline: bool = False
    ) -> RunProfile:
        """Return the profile of a run: of an attempt, or of the newest that has one.

        timeline: whether with all that ran in the watched step. Raises NotFound if the run was not
        profiled, or the head has no copy of its profile yet.
        """
        given = {} if attempt is None else {"attempt": str(attempt)}
        asked = {**given, "timeline": str(timeline).lower()}
        return self._one(RunProfile, Ask("GET", f"/runs/{quote(run_id, safe='')}/profile", asked))

    def sweeps(self) -> list[SweepRecord]:
        """Return all sweeps, oldest first."""
        with closing(self.reader()) as reader:
            return reader.sweeps()

    def sweep(self, sweep_id: str) -> SweepDetail:
        """Return a sweep and how far it is; raises NotFound."""
        return self._one(SweepDetail, Ask("GET", f"/sweeps/{quote(sweep_id, safe='')}"))

    def runs(self, sweep_id: str) -> list[Run]:
        """Return the runs of a sweep in the order of the queue."""
        with closing(self.reader()) as reader:
            return reader.runs(sweep_id)

    def events(self, sweep_id: str) -> Iterator[RunEvent]:
        """Yield what happens to a sweep's runs from now on, until the farm goes away."""
        with ApiFarmClient(NO_HOME, self.context).events(sweep_id) as events:
            yield from events

    def submit(self, sweep: Sweep | Mapping[str, Any] | str, *, again: bool = False) -> Submission:
        """Submit a sweep: itself, the keys of a file, or its YAML; the same one adds nothing.

        again: whether it is measured again. Raises SweepInvalid, NotAllowed, OverQuota.
        """
        if not isinstance(sweep, Sweep):
            text = sweep if isinstance(sweep, str) else canonical_json(dict(sweep))
            sweep = parse_sweep(text.encode(), "the sweep")  # JSON is YAML
        return ApiFarmClient(NO_HOME, self.context).submit(sweep, again=again)

    def cancel(self, sweep_id: str) -> int:
        """Cancel a sweep's open runs; return their number. Raises NotFound, NotAllowed."""
        return ApiFarmClient(NO_HOME, self.context).cancel(sweep_id)

    def devices(self) -> list[DeviceNow]:
        """Return all devices with their states now, by id."""
        return self.connection.run(self.connection.words.every(DevicePage, "/devices", {}))

    def history(self, device_id: str) -> list[DeviceHistoryEntry]:
        """Return what happened to a device, oldest first; nothing of an unknown one."""
        with closing(self.reader()) as reader:
            return reader.history(device_id)

    def agents(self) -> list[RegisteredAgent]:
        """Return all agents; none is online while the farm is down."""
        return self.connection.run(self.connection.words.every(AgentPage, "/agents", {}))

    def compare(
        self,
        a: str,
        b: str,
        workload: str,
        scenario: str = "training",
        *,
        knobs: Mapping[str, Scalar] | None = None,
        device: str | None = None,
        sweep: str | None = None,
        force: bool = False,
    ) -> Comparison:
        """Return how two cells compare by their stored results; see `benchfarm results compare`.

        Raises NotFound, and UserError if they are not to be compared.
        """
        given = {"device": device, "sweep": sweep, "knobs": knobs and canonical_json(dict(knobs))}
        asked = {"a": a, "b": b, "workload": workload, "scenario": scenario}
        asked |= {name: value for name, value in given.items() if value}
        asked["force"] = str(force).lower()
        return self._one(Comparison, Ask("GET", "/comparison", asked))

    def _one(self, kind: type[Answer], ask: Ask) -> Answer:
        return self.connection.run(self.connection.words.one(kind, ask))


def _filter(conditions: Mapping[str, Any]) -> OutcomeFilter:
    """Return conditions as the API has them; tags may be several, and knobs a mapping."""
    given = dict(conditions)
    if not isinstance(given.get("tags") or "", str):
        given["tags"] = ",".join(given["tags"])
    if isinstance(given.get("knobs"), Mapping):
        given["knobs"] = canonical_json(dict(given["knobs"]))
    try:
        return ResultConditions.model_validate(given).kept()
    except ValidationError as error:
        fault = faults_of(error)[0]
        known = ", ".join(ResultConditions.model_fields)
        tried = f"use the condition {fault.key!r}"
        raise UserError(tried, fault.said.removesuffix("."), f"Known: {known}.") from error
