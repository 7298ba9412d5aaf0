"""The walk from an outcome back to all that it comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from controller.contracts.artefacts import ArtefactRecord
from controller.contracts.base import scalar_text, utc_minute
from controller.contracts.device import RegisteredAgent
from controller.contracts.facts import FactKind, OwnFact, declaration_of, unit_of
from controller.contracts.imported import ImportedResult, ImportOrigin
from controller.contracts.provenance import (
    AttemptOrigin,
    CellOrigin,
    FileState,
    KeptFile,
    Provenance,
    SweepOrigin,
)
from controller.contracts.records import StoredFailure, StoredResult, SweepRecord
from controller.contracts.result import Environment
from controller.contracts.run import Attempt, Run
from controller.reports.figures import fact_label

EXPECTED: Final[Mapping[str, str]] = {
    "benchfarm": "version of benchfarm",
    "benchfarm_commit": "its commit",
    "bundle": "bundle",
    "model_sha256": "checksum of the model",
    "dataset_checksums": "checksums of the data set",
    "inputs_digest": "digest of the inputs",
    "dataset_origin": "what vouches for the data set",
}
"""Facts that are named if they are missing, and what they are."""
NOT_RECORDED: Final = "not recorded"


def wanted_files(
    record: StoredResult | StoredFailure, listed: Sequence[ArtefactRecord]
) -> dict[str, str | None]:
    """Return the path of each file that an attempt left, with its checksum if that is recorded.

    listed: the files of its run that the head knows of; a failure names none itself.
    """
    if isinstance(record, StoredFailure):
        return {one.path: one.sha256 for one in listed if one.attempt == record.attempt}
    return {**dict.fromkeys(record.artefacts.values()), **record.checksums}


def provenance_of(
    record: StoredResult | StoredFailure,
    run: Run | None,
    sweep: SweepRecord | None,
    agents: Sequence[RegisteredAgent],
    files: Mapping[str, tuple[str | None, FileState]],
    own: Mapping[str, OwnFact],
) -> Provenance:
    """Return where an outcome comes from.

    run, sweep: None if their records can't be read. files: `wanted_files` with their checksums, and
    what has become of them. own: what the catalogue's stacks and scenarios declare.
    """
    attempts = run.attempts if run else ()
    attempt = next((each for each in attempts if each.number == record.attempt), None)
    agent = attempt.agent_id if attempt else None
    hosts = {known.agent.id: known.agent.host for known in agents}
    outcome, reasons = _outcome(record)
    return Provenance(
        run_id=record.run_id,
        attempt=record.attempt,
        outcome=outcome,
        reasons=reasons,
        counted=record.counted,
        repeat=record.repeat,
        started_at=record.started_at,
        recorded_at=record.recorded_at,
        imported=record.imported if isinstance(record, ImportedResult) else None,
        sweep=_sweep(record, sweep),
        cell=_cell(record, run),
        attempts=tuple(map(_attempt, attempts)),
        device=record.device,
        device_name=record.device_name,
        device_kind=record.device_kind,
        virtual=record.virtual,
        agent=agent,
        host=hosts.get(agent) if agent else None,
        identity=_of_kind(record.environment, FactKind.IDENTITY, own),
        settings=_of_kind(record.environment, FactKind.SETTING, own),
        conditions=_of_kind(record.environment, FactKind.CONDITION, own),
        files=_files(record, files),
        not_recorded=tuple(_missing(record, run, sweep, any_files=bool(files))),
    )


def _outcome(record: StoredResult | StoredFailure) -> tuple[str, tuple[str, ...]]:
    if isinstance(record, StoredFailure):
        return f"failure {record.kind}", (record.message,)
    return str(record.validity), record.reasons


def _sweep(record: StoredResult | StoredFailure, sweep: SweepRecord | None) -> SweepOrigin | None:
    if sweep is None:
        return None
    return SweepOrigin(
        sweep_id=sweep.sweep_id,
        name=sweep.sweep.name,
        generation=sweep.generation,
        user=sweep.user,
        submitted_at=sweep.submitted_at,
        tags=record.tags,
    )


def _cell(record: StoredResult | StoredFailure, run: Run | None) -> CellOrigin:
    versus = record.versus
    side = f"{versus.stack} {_knobs(versus.knobs)}" if versus else None
    return CellOrigin(
        key=record.cell_key,
        workload=record.workload,
        stack=record.stack,
        scenario=record.scenario,
        knobs=record.knobs,
        selector=run.cell.selector if run else None,
        versus=side,
    )


def _attempt(attempt: Attempt) -> AttemptOrigin:
    return AttemptOrigin(
        number=attempt.number,
        device=attempt.device_id,
        agent=attempt.agent_id,
        state=attempt.state,
        leased_at=attempt.leased_at,
        ended_at=attempt.ended_at,
    )


def _of_kind(environment: Environment, kind: FactKind, own: Mapping[str, OwnFact]) -> Environment:
    """Return the facts of a kind; one that nothing declares counts as a condition."""

    def kind_of(name: str) -> FactKind:
        bare = name[2:] if name.startswith(("a.", "b.")) else name
        declared = declaration_of(name) or own.get(bare)
        return declared.kind if declared else FactKind.CONDITION

    return {name: value for name, value in environment.items() if kind_of(name) is kind}


def _files(
    record: StoredResult | StoredFailure, files: Mapping[str, tuple[str | None, FileState]]
) -> tuple[KeptFile, ...]:
    named: dict[str, list[str]] = {}
    for name, path in ({} if isinstance(record, StoredFailure) else record.artefacts).items():
        named.setdefault(path, []).append(name)
    return tuple(
        KeptFile(path=path, names=tuple(named.get(path, ())), sha256=sha256, state=state)
        for path, (sha256, state) in files.items()
    )


def _missing(
    record: StoredResult | StoredFailure,
    run: Run | None,
    sweep: SweepRecord | None,
    *,
    any_files: bool,
) -> Iterator[str]:
    if sweep is None:
        yield f"sweep {record.sweep_id}"
    if run is None:
        yield "the run's attempts"
    sides = ("", "a.", "b.")
    for fact, means in EXPECTED.items():
        if all(record.environment.get(f"{side}{fact}") is None for side in sides):
            yield f"{means} ({fact})"
    if isinstance(record, StoredResult) and not record.checksums:
        yield "checksums of its files"
    if isinstance(record, StoredFailure) and not any_files:
        yield "files of a failed attempt"


def provenance_lines(found: Provenance, own: Mapping[str, OwnFact]) -> Iterator[str]:
    """Yield the walk for people, a step a line; own as for provenance_of."""
    counted = "" if found.counted else ", late: not counted"
    yield f"run {found.run_id}, attempt {found.attempt}: {found.outcome}{counted}"
    yield from (f"              {reason}" for reason in found.reasons)
    if found.imported:
        yield from _imported_lines(found.imported)
    yield f"  sweep       {_sweep_text(found.sweep)}"
    cell = found.cell
    yield f"  cell        {cell.key}: {cell.workload} {cell.scenario} on {cell.stack}"
    if cell.versus:
        yield f"  side B      {cell.versus}"
    yield f"  knobs       {_knobs(cell.knobs) or 'none'}"
    yield f"  selector    {cell.selector or NOT_RECORDED}, repeat {found.repeat}"
    yield from (f"  attempt {each.number}   {_attempt_text(each)}" for each in found.attempts)
    virtual = " (virtual)" if found.virtual else ""
    where = f"agent {found.agent or NOT_RECORDED} on host {found.host or NOT_RECORDED}"
    yield f"  device      {found.device_name or found.device}{virtual}, {where}"
    recorded = utc_minute(found.recorded_at) if found.recorded_at else NOT_RECORDED
    yield f"  measured    {utc_minute(found.started_at)}, handed in {recorded}"
    for title, facts in (
        ("identity", found.identity),
        ("settings", found.settings),
        ("conditions", found.conditions),
    ):
        yield f"  {title}"
        yield from _facts(facts, own)
    yield f"  files       {_counts(found.files)}"
    yield from (f"    {_file_text(file, found)}" for file in found.files)
    yield f"  {NOT_RECORDED}: {', '.join(found.not_recorded) or 'nothing is missing'}"


def _imported_lines(origin: ImportOrigin) -> Iterator[str]:
    division = f", {origin.division}" if origin.division else ""
    yield f"  imported    {origin.title}{division}: {origin.benchmark} by {origin.submitter}"
    yield f"  system      {origin.system}"
    yield f"  read from   {origin.source}, sha256 {origin.checksum}"


def _sweep_text(sweep: SweepOrigin | None) -> str:
    if sweep is None:
        return NOT_RECORDED
    tags = f", tags {' '.join(sweep.tags)}" if sweep.tags else ""
    when = utc_minute(sweep.submitted_at)
    return f"{sweep.sweep_id}, submission {sweep.generation} by {sweep.user} on {when}{tags}"


def _attempt_text(attempt: AttemptOrigin) -> str:
    ended = f", ended {utc_minute(attempt.ended_at)}" if attempt.ended_at else ""
    leased = utc_minute(attempt.leased_at)
    return f"{attempt.state} on {attempt.device} by {attempt.agent}: leased {leased}{ended}"


def _facts(facts: Environment, own: Mapping[str, OwnFact]) -> Iterator[str]:
    for name, value in facts.items():
        unit = unit_of(name, own)
        parts = value if isinstance(value, tuple) else (value,)
        text = " ".join("unknown" if part is None else scalar_text(part) for part in parts)
        yield f"    {fact_label(name)}: {text}{f' {unit}' if unit and value is not None else ''}"


def _counts(files: Sequence[KeptFile]) -> str:
    counts = {state: sum(file.state is state for file in files) for state in FileState}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "none"


def _file_text(file: KeptFile, found: Provenance) -> str:
    sha256 = f"sha256 {file.sha256}" if file.sha256 else f"checksum {NOT_RECORDED}"
    away = f" (on host {found.host or NOT_RECORDED})" if file.state is FileState.ELSEWHERE else ""
    return f"{file.state}{away}  {sha256}  {file.path}"


def _knobs(knobs: Mapping[str, bool | int | float | str]) -> str:
    return " ".join(f"{name}={scalar_text(value)}" for name, value in knobs.items())
