"""Folders that `results verify` is given: LoadGen's logs, and the runs of a published board."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from controller.contracts.catalog import load_catalog
from controller.contracts.documents import DocumentRefused, load_json, read_limited
from controller.contracts.errors import NotFound, UserError
from controller.contracts.imported import ImportedResult
from controller.contracts.published import RESULT, RUNS
from controller.contracts.records import StoredResult
from controller.contracts.suite_rules import SuiteRules, Target
from controller.contracts.suite_version import quality_target
from controller.imported.figures import accuracy_as
from controller.imported.published import ACCURACY_TEXT
from controller.imported.system import accuracy_of
from controller.loadgen import logs
from controller.loadgen.board_checks import board_checks, folders_of
from controller.loadgen.checks import Check, judged, unchecked
from controller.loadgen.logs import LogUnreadable
from controller.loadgen.row_checks import BOARD
from controller.loadgen.run_logs import RunLogs
from controller.loadgen.stored_checks import quality_check, stored_checks
from controller.loadgen.texts import MIB, brief, read_text

MOST_FOLDERS: Final = 10_000
"""That one command looks through, and whose logs it reads."""
_MOST_BYTES: Final = 64 * MIB
"""Of a stored result or of a board's data."""
_MOST_SCORE_BYTES: Final = MIB
_OURS: Final = frozenset({"run_id", "validity", "metrics", "cell_key"})
"""Fields that no other program's result.json has."""
_MODES: Final = ("performance", "accuracy")
_LINK: Final = "a link to a folder; links are not followed. Name what it leads to"


@dataclass(slots=True)
class Found:
    """What a folder has to be verified."""

    logs: list[Path] = field(default_factory=list)
    """Folders with logs of LoadGen."""
    runs: list[Path] = field(default_factory=list)
    """Folders of a board's runs, with a stored result."""
    boards: list[Path] = field(default_factory=list)
    """Folders that hold a board."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Folder → why nobody looked into it."""


def is_path(subject: str) -> bool:
    """Return whether a word names a file or folder; raises UserError if it can't name anything."""
    try:
        return os.sep in subject or Path(subject).exists()
    except (OSError, ValueError) as error:
        raise _no_path(subject, error) from error


def _no_path(subject: str, error: Exception) -> UserError:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return UserError(f"verify {brief(subject)}", why, "Give a run id or a folder.")


def look_through(subject: str) -> Found:
    """Return what is below a folder, itself included; raises UserError if there is nothing."""
    path, tried = Path(subject), f"verify {brief(subject)}"
    try:
        if not path.exists():
            raise NotFound(tried, "there is no such folder", "Give a run id or another folder.")
        if path.is_file():
            remedy = f"Name its folder, {brief(str(path.parent))}, whose logs belong together."
            raise UserError(tried, "it is a file, not a folder", remedy)
    except (OSError, ValueError) as error:
        raise _no_path(subject, error) from error
    found = Found()
    for looked, (folder, files) in enumerate(_walk(path, found.skipped)):
        if looked >= MOST_FOLDERS:
            seen = f"it has more than {MOST_FOLDERS} folders"
            raise UserError(tried, seen, "Name a part of it.")
        if {logs.DETAIL, logs.SUMMARY} & files:
            found.logs.append(folder)
        # It never raises, not even for a path that is too long.
        if os.path.isfile(folder / BOARD):  # noqa: PTH113
            found.boards.append(folder)
        if RESULT in files and (board_of(folder) or _is_ours(folder)):
            found.runs.append(folder)
    if not (found.logs or found.runs or found.skipped):
        seen = f"no folder of it has {logs.DETAIL}"
        raise UserError(tried, seen, "Name a folder with LoadGen's logs.")
    return found


def _walk(path: Path, skipped: dict[str, str]) -> Iterator[tuple[Path, set[str]]]:
    """Yield each folder with its files; note those that nobody can look into."""

    def refused(error: OSError) -> None:
        skipped[str(error.filename)] = error.strerror or str(error)

    for folder, inner, files in os.walk(path, onerror=refused):
        inner.sort()
        # It never raises, not even for a path that is too long.
        linked = (name for name in inner if os.path.islink(Path(folder, name)))  # noqa: PTH114
        skipped.update({str(Path(folder, name)): _LINK for name in linked})
        yield Path(folder), {*files}


# --- a board's runs -------------------------------------------------------------------------------


def _is_ours(folder: Path) -> bool:
    try:
        return stored_result(folder) is not None
    except LogUnreadable:
        return False


def stored_result(folder: Path) -> StoredResult | None:
    """Return the stored result in a run's folder; None if it is another program's.

    Raises LogUnreadable: there is none, it is no JSON, or no stored result.
    """
    said = _json(folder / RESULT, RESULT)
    if not isinstance(said, dict) or not said.keys() >= _OURS:
        return None
    kind = ImportedResult if "imported" in said else StoredResult
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise LogUnreadable(f"{RESULT}: {brief(place)}: {brief(first['msg'])}") from error


def _json(path: Path, name: str) -> object:
    try:
        if not path.is_file():
            raise LogUnreadable(f"{name}: no such file")
        found: object = load_json(read_limited(path, _MOST_BYTES), _MOST_BYTES)
    except (OSError, DocumentRefused) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise LogUnreadable(f"{name}: {brief(why or str(error))}") from error
    return found


class Board:
    """A published board, as far as its runs are verified by it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def _told(self) -> object:
        return _json(self._root / BOARD, BOARD)

    @cached_property
    def _results(self) -> dict[str, StoredResult]:
        """The stored results of all its runs that can be read, by their folders."""
        found = {}
        for folder in dict.fromkeys(folders_of(self._told)):
            try:
                result = stored_result(self._root / folder)
            except LogUnreadable:
                continue
            if result:
                found[folder] = result
        return found

    def absent(self) -> list[str]:
        """Return the runs' folders that it names and that have no result; raises LogUnreadable."""
        there = {name: (self._root / name / RESULT).is_file() for name in folders_of(self._told)}
        return [name for name, found in there.items() if not found]

    @cached_property
    def _checked(self) -> dict[str, list[Check]]:
        """The checks of each run that it names and whose result can be read."""
        return board_checks(self._told, self._results)

    def checks(self, run: Path) -> list[Check]:
        """Return the checks of what it says of a run; raises LogUnreadable."""
        checks = self._checked.get(f"{RUNS}/{run.absolute().name}")
        return checks or [unchecked(BOARD, None, "it has no row with this run")]


def board_of(run: Path) -> Board | None:
    """Return the board that a run's folder is in; None if it is in none."""
    runs = run.absolute().parent
    in_board = runs.name == RUNS and (runs.parent / BOARD).exists()
    return Board(runs.parent) if in_board else None


def run_checks(run: Path, board: Board | None) -> Iterator[Check]:
    """Yield the checks of a board's run that need no logs; raises LogUnreadable."""
    result = stored_result(run)
    if result is None:
        raise LogUnreadable(f"{RESULT}: not a stored result of benchfarm")
    if not any((run / mode / logs.DETAIL).exists() for mode in _MODES):
        why = "there are no logs of LoadGen in its folder, from which it could be computed again"
        for name, metric in result.metrics.items():
            yield unchecked(name, metric.value, why)
    if board:
        yield from board.checks(run)
    else:
        yield unchecked(BOARD, None, "the folder is in no board")


def logged_checks(folder: Path, run: RunLogs) -> Iterator[Check]:
    """Yield the checks of a board's stored result by the logs of its run; none elsewhere."""
    place = folder.absolute().parent
    in_board = board_of(place) is not None and folder.name in _MODES
    if not (in_board or _is_ours(place)):
        return
    result = stored_result(place)
    if result is None:
        return
    if run.is_performance:
        yield from stored_checks(result, run, folder)
        return
    workload = load_catalog().workloads.get(result.workload)
    yield quality_check(result, quality_target(workload, result.knobs) if workload else None)


# --- accuracy -------------------------------------------------------------------------------------


def target_checks(
    folder: Path, run: RunLogs, rules: SuiteRules | None, task: str | None
) -> Iterator[Check]:
    """Yield the check of an accuracy run's accuracy, which another program scored.

    LoadGen's files have only answers: an `accuracy.txt` beside them, as rounds of MLPerf Inference
    have it, says what they scored.
    """
    if run.is_performance:
        return
    said = accuracy_of(_short_text(folder / ACCURACY_TEXT))
    shown = None if said is None else f"{said[0]} {said[1]:.6g}"
    targets = rules.tasks[task].targets if rules and task else ()
    if rules is None or task is None:
        yield unchecked("accuracy", shown, "its target: give --suite-version and --task")
    elif not targets:
        yield unchecked("accuracy", shown, f"{rules.title} prints no target for {task}")
    elif said is None:
        why = f"LoadGen's files have only answers, and there is no {ACCURACY_TEXT} that scores them"
        yield unchecked("accuracy", None, why)
    else:
        yield _against(targets, *said, rules.title)


def _against(targets: Sequence[Target], metric: str, fraction: float, title: str) -> Check:
    """Return the check of an accuracy; which target counts may depend on the number format."""
    value = accuracy_as(metric, fraction).value
    least = sorted(target.value for target in targets if target.metric == metric)
    if not least:
        named = ", ".join(dict.fromkeys(target.metric for target in targets))
        return unchecked(metric, value, f"the target of {title} is of {named}")
    if least[0] <= value < least[-1]:
        why = f"{title} has several targets, of number formats or data sets: {least[0]:.6g} …"
        return unchecked(metric, value, why)
    by = f"the target of {title}, by {ACCURACY_TEXT}"
    return judged(metric, value, f"at least {least[0]:.6g}", by, same=value >= least[-1])


def _short_text(path: Path) -> str:
    """Return the text of a small file; empty if there is none."""
    try:
        return read_text(path, _MOST_SCORE_BYTES) if path.is_file() else ""
    except LogUnreadable:
        return ""
