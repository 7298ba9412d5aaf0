"""The app's results in a tree, and which of them is of the same run as a log. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from controller.contracts.base import Scalar
from controller.contracts.result import Measurement
from controller.imported.app_json import AppResult, AppSession
from controller.imported.doubles import same_figures
from controller.imported.figures import LeftOut, Measured, accuracy_from, from_app
from controller.imported.layout import MOBILE, SCENARIOS, Owner, Place, owner_of
from controller.imported.tasks import workload_of


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A benchmark in a session of the app."""

    path: PurePosixPath
    owner: Owner | None
    """None for a JSON file that lies in no submission."""
    system: str
    """Name of the folder it lies in; empty if that is `results`."""
    session: AppSession
    result: AppResult
    described: Mapping[str, Scalar]

    def accuracy(self, metric: str) -> Measurement | None:
        """Return the accuracy of its accuracy run, if it has one."""
        return accuracy_from(self.result, metric)


class Entries:
    """The entries of a tree; each is taken by one log at most."""

    def __init__(self) -> None:
        self._all: list[Entry] = []
        self._taken: set[int] = set()

    def add(
        self,
        path: PurePosixPath,
        parts: Sequence[str],
        session: AppSession,
        described: Mapping[str, Scalar],
    ) -> None:
        """Add a session. parts: of the JSON's whole path."""
        owner = owner_of(parts[:-1])
        rest = parts[len(owner.place) + 1 : -1] if owner else ()
        folder = rest[0] if rest else ""
        self._all += [
            Entry(path, owner, folder, session, result, described) for result in session.results
        ]

    def taken(self, place: Place, measured: Measured) -> Entry | None:
        """Return the entry of a log's own run, which is then taken; None if there is none.

        An entry with another number of queries than the log is of another run; of a log without
        that number, one with another figure.
        """
        for entry in self._all:
            if self._fits(entry, place, measured.scenario) and _agrees(entry, measured):
                self._taken.add(id(entry))
                return entry
        return None

    def left(self) -> list[Entry]:
        """Return the entries that no log has taken."""
        return [entry for entry in self._all if id(entry) not in self._taken]

    def _fits(self, entry: Entry, place: Place, scenario: str) -> bool:
        owner = entry.owner
        if id(entry) in self._taken or owner is None or owner.place != place.owner.place:
            return False
        theirs = SCENARIOS.get(entry.result.loadgen_scenario)
        # Any round does: both are of the same one.
        mine, other = (
            workload_of(MOBILE, name, "") for name in (place.benchmark, entry.result.benchmark_id)
        )
        return (entry.system, theirs, other) == (place.system, scenario, mine)


def _agrees(entry: Entry, measured: Measured) -> bool:
    run = entry.result.performance_run
    if run is None:
        return True
    if measured.queries is None:
        return _same_figure(entry.result, measured)
    said = run.loadgen.query_count if run.loadgen else None
    if said is None and entry.result.loadgen_scenario == "SingleStream":
        said = run.measured_samples  # one a query
    return said in (None, measured.queries)


def _same_figure(result: AppResult, measured: Measured) -> bool:
    try:
        theirs = from_app(result)
    except LeftOut:
        return False
    return same_figures(theirs.metrics, measured.metrics)
