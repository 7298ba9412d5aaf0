"""Sessions of the mobile suite, as the store has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from controller.contracts.run import Run
from controller.contracts.suite_rules import load_suites
from controller.contracts.sweep import Sweep
from controller.scheduling.suite_plan import Place, PlaceOf, places_of, version_of
from controller.scheduling.suite_session import PartRun, Session, in_order, spans_of
from controller.store.protocol import FarmReader


def by_name(sweep: Sweep) -> Place | None:
    """Return the place that a sweep's name says, whatever it measures; see SuitePlan.place_of."""
    return Place.of(sweep.name)


def session_ids(store: FarmReader, place_of: PlaceOf = by_name) -> list[str]:
    """Return the ids of all sessions of the versions that have rules, oldest first."""
    known = {rules.version for rules in load_suites()}
    places = places_of(store.sweeps(), place_of).values()
    ids = dict.fromkeys(place.session for place in places)
    return [id_ for id_ in ids if version_of(id_) in known]


def read_sessions(
    store: FarmReader, ids: Iterable[str], place_of: PlaceOf = by_name
) -> list[Session]:
    """Return sessions with their results, and with what else their devices did."""
    wanted = set(ids)
    runs = store.runs()
    run_of = {run.sweep_id: run for run in runs if run.position == 0}
    found: defaultdict[str, list[PartRun]] = defaultdict(list)
    readable = (record for record in store.sweeps() if record.sweep_id in run_of)
    for sweep_id, place in places_of(readable, place_of).items():
        if place.session in wanted:
            found[place.session].append(part_run(store, place, run_of[sweep_id]))
    return [_session(id_, found[id_], runs) for id_ in ids]


def _session(id_: str, parts: Iterable[PartRun], runs: Iterable[Run]) -> Session:
    ordered = in_order(parts)
    own = {part.sweep_id for part in ordered}
    devices = {span.device for part in ordered for span in part.spans}
    spans = (span for run in runs if run.sweep_id not in own for span in spans_of(run))
    return Session(id_, ordered, tuple(span for span in spans if span.device in devices))


def part_run(store: FarmReader, place: Place, run: Run) -> PartRun:
    """Return a part with its result, or why it has none; called for runs that were submitted."""
    if not run.state.terminal:
        return PartRun.of(place, run)
    result = next((r for r in store.results(run.sweep_id) if r.counted), None)
    failed = [f for f in store.failures(run.sweep_id) if f.counted] if result is None else []
    why = f"{failed[-1].blame}: {failed[-1].message}" if failed else ""
    return PartRun.of(place, run, result, why)
