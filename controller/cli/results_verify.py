"""`benchfarm results verify`: recompute results from LoadGen's own files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from controller.cli.common import Json, reading, show_json, show_table
from controller.cli.verified_folders import (
    Board,
    board_of,
    is_path,
    logged_checks,
    look_through,
    run_checks,
    target_checks,
)
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import CopyDamaged, NotFound, UserError
from controller.contracts.mobile import task_of
from controller.contracts.published import RESULT
from controller.contracts.records import StoredResult
from controller.contracts.suite_rules import SuiteRules, load_suites
from controller.contracts.suite_version import quality_target, rules_of
from controller.loadgen import audit_pattern
from controller.loadgen.checks import LONGEST, Check, Verdict, VerifiedLogs, differs
from controller.loadgen.logs import LogUnreadable
from controller.loadgen.row_checks import BOARD
from controller.loadgen.rule_checks import round_of, rule_checks
from controller.loadgen.run_logs import RunLogs, read_run
from controller.loadgen.stored_checks import quality_check, ruled_checks, stored_checks
from controller.loadgen.texts import brief
from controller.loadgen.verifying import verify as verified
from controller.platform.terminal import say
from controller.runtime.run_files import LOGS, RunFiles, name_of
from controller.scheduling.references import find_run

NO_SUCH_LOG: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""What arithmetic on values raises that LoadGen never writes."""
_OF_MODE: Final = {
    "performance": "performance_loadgen_detail",
    "accuracy": "accuracy_loadgen_detail",
}
"""Mode of a run → the artefact of its detail log."""


def verify(
    subject: Annotated[
        str, typer.Argument(help="Run id, or its beginning; or a folder with LoadGen's logs.")
    ],
    suite_version: Annotated[
        str | None,
        typer.Option(help="Check a folder by the rules of this MLPerf Mobile round, e.g. v4.0."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Check a folder by the rules of this task, e.g. mosaic.")
    ] = None,
    json: Json = False,
) -> None:
    """Recompute a result from LoadGen's logs.

    Ends with status 0 if nothing differs, 1 if anything does, and 2 if a file can't be read.
    """
    rules = _rules(suite_version, task)
    found = [*_of_path(subject, rules, task)] if is_path(subject) else _of_run(subject)
    if json:
        show_json(found)
    else:
        for each in found:
            _show(each)
    if any(each.unreadable for each in found):
        raise typer.Exit(2)
    if any(differs(each.checks) for each in found):
        raise typer.Exit(1)


def _rules(version: str | None, task: str | None) -> SuiteRules | None:
    if version is None and task is None:
        return None
    tried = "check by the rules of a round"
    known = {rules.version: rules for rules in load_suites()}
    if version is None:
        raise UserError(tried, "--task says no round", "Give --suite-version, too.")
    if version not in known:
        raise UserError(tried, f"there is no {version}", f"Give one of {', '.join(known)}.")
    tasks = known[version].tasks
    if task and task not in tasks:
        raise UserError(tried, f"{version} has no {task}", f"Give one of {', '.join(tasks)}.")
    return known[version]


# --- folders --------------------------------------------------------------------------------------


def _of_path(subject: str, rules: SuiteRules | None, task: str | None) -> Iterator[VerifiedLogs]:
    """Yield the checks of each test and each published run below a folder."""
    found = look_through(subject)
    for folder in found.logs:
        yield _verified(folder, _folder_checks(folder, rules, task))
    boards: dict[Path, Board | None] = {}
    for folder in found.runs:
        root = folder.absolute().parent.parent
        if root not in boards:
            boards[root] = board_of(folder)
        yield _verified(folder, run_checks(folder, boards[root]))
    for root in found.boards:
        yield from _absent(root)
    for name, why in found.skipped.items():
        yield VerifiedLogs(where=brief(name, LONGEST), unreadable=why)


def _absent(root: Path) -> Iterator[VerifiedLogs]:
    """Yield the runs that a board names and of which it has no result."""
    try:
        for name in Board(root).absent():
            why = f"it has no {RESULT}, though {BOARD} names it"
            yield VerifiedLogs(where=str(root / name), unreadable=why)
    except LogUnreadable as error:
        yield VerifiedLogs(where=str(root), unreadable=str(error))


def _folder_checks(folder: Path, rules: SuiteRules | None, task: str | None) -> Iterator[Check]:
    run = read_run(folder)
    yield from verified(run)
    yield from rule_checks(run, rules, task) if rules else [round_of(run)]
    published = [*logged_checks(folder, run)]
    yield from published or target_checks(folder, run, rules, task)


def _verified(where: Path, checks: Iterator[Check]) -> VerifiedLogs:
    try:
        return VerifiedLogs(where=str(where), checks=tuple(checks))
    except LogUnreadable as error:
        return VerifiedLogs(where=str(where), unreadable=str(error))
    except NO_SUCH_LOG as error:
        return VerifiedLogs(where=str(where), unreadable=_strange(error))


def _told_checks(result: StoredResult, run: RunLogs, folder: Path, mode: str) -> Iterator[Check]:
    """Yield the checks of a result's figures against its run's logs."""
    if mode == "performance":
        yield from stored_checks(result, run, folder)
    elif mode == "accuracy":
        workload = load_catalog().workloads.get(result.workload)
        yield quality_check(result, quality_target(workload, result.knobs) if workload else None)


def _strange(error: Exception) -> str:
    """Return why values are none that LoadGen writes."""
    return f"a value is none that LoadGen writes ({type(error).__name__}: {error!s:.120})"


# --- runs -----------------------------------------------------------------------------------------


def _of_run(given: str) -> list[VerifiedLogs]:
    """Return the checks of each attempt of a run that has logs of LoadGen, by the head's copies."""
    with reading() as store:
        results = store.results()
        meant = find_run(given, dict.fromkeys(result.run_id for result in results))
        files = RunFiles(store, meant)
        mine = [result for result in results if result.run_id == meant]
        found = [each for result in mine for each in _of_result(result, files)]
    if not found:
        seen = "its results have no logs of LoadGen"
        raise UserError(f"verify run {meant}", seen, "Name a run of LoadGen: see `scenario list`.")
    return found


def _of_result(result: StoredResult, files: RunFiles) -> Iterator[VerifiedLogs]:
    for mode, artefact in _OF_MODE.items():
        if artefact in result.artefacts:
            where = f"run {result.run_id}, attempt {result.attempt}, {mode}"
            name = name_of(result, result.artefacts[artefact])
            try:
                yield VerifiedLogs(where=where, checks=_fetched_checks(result, mode, files, name))
            except LogUnreadable as error:
                yield VerifiedLogs(where=where, unreadable=str(error))
            except NO_SUCH_LOG as error:
                yield VerifiedLogs(where=where, unreadable=_strange(error))
            except (NotFound, CopyDamaged) as error:
                yield VerifiedLogs(where=where, unreadable=str(error))


def _fetched_checks(
    result: StoredResult, mode: str, files: RunFiles, name: str
) -> tuple[Check, ...]:
    """Return the checks of a test by the head's copies of its logs. name: of its detail log."""
    detail = files.at_hand(result.attempt, name)
    with files.fetched(files.beside(detail, (*LOGS, audit_pattern.FILE))) as folder:
        return tuple(_run_checks(result, mode, (folder / name).parent))


def _run_checks(result: StoredResult, mode: str, folder: Path) -> Iterator[Check]:
    run = read_run(folder)
    yield from verified(run)
    yield from _told_checks(result, run, folder, mode)
    rules = rules_of(result.workload, result.knobs)
    yield from ruled_checks(result, run, rules, task_of(result.workload))


# --- output ---------------------------------------------------------------------------------------


def _show(found: VerifiedLogs) -> None:
    if found.unreadable:
        say(f"benchfarm: cannot verify {found.where}: {found.unreadable}", err=True)
        return
    table = Table("figure", "says", "recomputed", "verdict", "by", title=found.where)
    table.title_justify = "left"
    for check in found.checks:
        table.add_row(check.figure, check.says, check.recomputed, check.verdict, check.by)
    show_table(table)
    counts = {v: sum(check.verdict is v for check in found.checks) for v in Verdict}
    same, odd, rest = (counts[verdict] for verdict in Verdict)
    told = f"{same} the same, {odd} different, {rest} that can't be checked"
    say(f"{told}; the run itself is INVALID" if _is_invalid(found) else told)


def _is_invalid(found: VerifiedLogs) -> bool:
    """Return whether LoadGen, or a stored result, says that a run is INVALID."""
    verdicts = ("result_validity", "validity")
    return any(check.figure in verdicts and check.says == "INVALID" for check in found.checks)
