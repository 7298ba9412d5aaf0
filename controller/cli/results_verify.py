"""`benchfarm results verify`: recompute results from LoadGen's own files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from controller.cli.common import Json, reading, show_json, show_table
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import NotFound, UserError
from controller.contracts.mobile import task_of
from controller.contracts.records import StoredResult
from controller.contracts.suite_rules import SuiteRules, load_suites
from controller.contracts.suite_version import quality_target, rules_of
from controller.loadgen import logs
from controller.loadgen.checks import Check, Verdict, VerifiedLogs, differs
from controller.loadgen.logs import LogUnreadable
from controller.loadgen.rule_checks import round_of, rule_checks
from controller.loadgen.run_logs import RunLogs, read_run
from controller.loadgen.stored_checks import quality_check, ruled_checks, stored_checks
from controller.loadgen.verifying import verify as verified
from controller.platform.terminal import say
from controller.scheduling.references import find_run

MOST_FOLDERS: Final = 10_000
"""That one command looks through, and whose logs it reads."""
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
    if os.sep in subject or Path(subject).exists():
        found = [_of_folder(folder, rules, task) for folder in _folders(Path(subject))]
    else:
        found = _of_run(subject)
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


def _folders(path: Path) -> list[Path]:
    """Return the folders with logs below a path, itself included; raises UserError for none."""
    tried = f"verify {path}"
    if not path.exists():
        raise NotFound(tried, "there is no such folder", "Give a run id or another folder.")
    if path.is_file():
        path = path.parent
    found = []
    for looked, (folder, inner, files) in enumerate(os.walk(path)):
        inner.sort()
        if looked >= MOST_FOLDERS:
            seen = f"it has more than {MOST_FOLDERS} folders"
            raise UserError(tried, seen, "Name a part of it.")
        if {logs.DETAIL, logs.SUMMARY} & set(files):
            found.append(Path(folder))
    if not found:
        seen = f"no folder of it has {logs.DETAIL}"
        raise UserError(tried, seen, "Name a folder with LoadGen's logs.")
    return found


def _of_folder(folder: Path, rules: SuiteRules | None, task: str | None) -> VerifiedLogs:
    try:
        run = read_run(folder)
        checks = verified(run)
        checks += rule_checks(run, rules, task) if rules else [round_of(run)]
    except LogUnreadable as error:
        return VerifiedLogs(where=str(folder), unreadable=str(error))
    except NO_SUCH_LOG as error:
        return VerifiedLogs(where=str(folder), unreadable=_strange(error))
    return VerifiedLogs(where=str(folder), checks=tuple(checks))


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
    """Return the checks of each attempt of a run that has logs of LoadGen."""
    with reading() as store:
        results = store.results()
    meant = find_run(given, dict.fromkeys(result.run_id for result in results))
    mine = [result for result in results if result.run_id == meant]
    found = [each for result in mine for each in _of_result(result)]
    if not found:
        seen = "its results have no logs of LoadGen"
        raise UserError(f"verify run {meant}", seen, "Name a run of LoadGen: see `scenario list`.")
    return found


def _of_result(result: StoredResult) -> Iterator[VerifiedLogs]:
    for mode, artefact in _OF_MODE.items():
        if artefact in result.artefacts:
            folder = Path(result.artefacts[artefact]).parent
            where = f"run {result.run_id}, attempt {result.attempt}, {mode}"
            try:
                yield VerifiedLogs(where=where, checks=tuple(_run_checks(result, mode, folder)))
            except LogUnreadable as error:
                yield VerifiedLogs(where=where, unreadable=f"{folder}: {error}")
            except NO_SUCH_LOG as error:
                yield VerifiedLogs(where=where, unreadable=f"{folder}: {_strange(error)}")


def _run_checks(result: StoredResult, mode: str, folder: Path) -> Iterator[Check]:
    if not folder.is_dir():
        raise LogUnreadable("the folder is not on this host; run this on the host that measured")
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
    say(f"{same} the same, {odd} different, {rest} that can't be checked")
