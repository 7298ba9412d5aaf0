"""`benchfarm results export --format mlperf-mobile` and `app`: what a submission would have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from controller.cli.common import write_file
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import CopyDamaged, NotFound, UserError
from controller.contracts.records import StoredResult
from controller.contracts.version import installed_version
from controller.imported.app_export import RunLogs, app_json
from controller.imported.checked_logs import contradiction, doubt, run_of
from controller.imported.exportable import LOGS, Exportable, choose_exportable
from controller.imported.stored_figures import figure_differences
from controller.imported.submission import SUMS, TO_FILL_IN, checksums, submission_of
from controller.loadgen.logs import DETAIL, TRACE, DetailLog, LogUnreadable
from controller.platform.atomic import replacing_folder
from controller.platform.terminal import say
from controller.runtime.run_files import RunFiles, name_of
from controller.store.protocol import ArtefactReader

LINES_SAID: Final = 30
"""Lines about what is left out, and about what is to be filled in, that are printed."""
MOST_LOG_BYTES: Final = 2**30
_ACCURACY_DETAIL: Final = "accuracy_loadgen_detail"
MOST_NAMED: Final = 3
"""Figures of a result that a line names."""
_NOT_AT_HAND: Final = (CopyDamaged, NotFound, ArithmeticError, LookupError, TypeError, ValueError)
"""What reading logs raises, and arithmetic on values that LoadGen never writes."""

Logs = Mapping[str, Mapping[str, bytes]]
"""Run id → artefact → content."""


def export_tree(reader: ArtefactReader, results: Sequence[StoredResult], output: Path) -> None:
    """Write the tree of a submission and say what is to be filled in; raises UserError."""
    tried = f"export to {output}"
    kept, files, run_logs = _readable(reader, results, tried)
    rounds = sorted({one.rules.version for one in kept})
    if len(rounds) > 1:
        remedy = f"Choose one, such as with --knob suite_version={rounds[-1]}."
        raise UserError(tried, f"the results are of rounds {', '.join(rounds)}", remedy)
    try:
        made = submission_of(kept, files, run_logs, load_catalog(), installed_version())
    except LogUnreadable as error:
        raise UserError(tried, str(error), "Leave its result out with the filters.") from error
    with _new_folder(output) as folder:
        for path, content in made.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        (folder / SUMS).write_text(checksums(made.files))
    say(f"{len(kept)} results written to {output}, as a submission to {kept[0].rules.title}")
    say(f"to be filled in by you, see {output / TO_FILL_IN}:")
    _say_some(made.to_fill_in)


def export_app_json(reader: ArtefactReader, results: Sequence[StoredResult], output: Path) -> None:
    """Write the JSON of one phone's results; raises UserError."""
    tried = f"export to {output}"
    kept, _, run_logs = _readable(reader, results, tried)
    phones = sorted({one.result.shown_device for one in kept})
    if len(phones) > 1:
        remedy = "Choose one with --device."
        raise UserError(tried, f"the app's JSON is of one phone, not {', '.join(phones)}", remedy)
    try:
        text = app_json(kept, run_logs, load_catalog(), installed_version())
    except LogUnreadable as error:
        raise UserError(tried, str(error), "Leave its result out with the filters.") from error
    write_file(output, text)
    say(f"{len(kept)} results written to {output}")
    say("blank in it: backend filename, model paths, board code, build number and commit")
    _say_some(
        [
            f"{one.result.run_id}: a reviewer would refuse its logs: {odd}"
            for one in kept
            for odd in run_logs[one.result.run_id].doubts
        ]
    )


def _readable(
    reader: ArtefactReader, results: Sequence[StoredResult], tried: str
) -> tuple[list[Exportable], Logs, dict[str, RunLogs]]:
    """Return the results that can be exported, with their logs; say which are left out."""
    chosen = choose_exportable(results)
    left_out, kept = list(chosen.left_out), []
    files: dict[str, Mapping[str, bytes]] = {}
    parsed: dict[str, RunLogs] = {}
    for one in chosen.kept:
        id_ = one.result.run_id
        try:
            files[id_] = _files_of(one.result, RunFiles(reader, id_))
            parsed[id_] = _parsed(files[id_])
            odd = [*figure_differences(one.result, parsed[id_].performance)]
        except _NOT_AT_HAND as error:
            left_out.append(f"{id_}: its logs: {error}")
            continue
        if odd:
            told = "; ".join(odd[:MOST_NAMED])
            left_out.append(f"{id_}: its figures are not those of its log: {told}")
            continue
        kept.append(one)
    for line in left_out[:LINES_SAID]:
        say(f"left out: {line}", err=True)
    if (more := len(left_out) - LINES_SAID) > 0:
        say(f"left out: {more} more", err=True)
    if not kept:
        seen = f"none of {len(results)} results is one that a submission can have"
        raise UserError(tried, seen, "See docs/imported-results.md for what is needed.")
    return kept, files, parsed


def _files_of(result: StoredResult, files: RunFiles) -> dict[str, bytes]:
    """Return a result's logs by artefact, with those traces that are at hand.

    Raises NotFound, CopyDamaged, LogUnreadable.
    """
    contents = {}
    for name in (name for name in LOGS if name in result.artefacts):
        try:
            contents[name] = _content(result, files, name)
        except _NOT_AT_HAND:  # a trace comes last, and holds no figure that the others lack
            if LOGS[name][1] != TRACE:
                raise
    return contents


def _content(result: StoredResult, files: RunFiles, name: str) -> bytes:
    one = files.at_hand(result.attempt, name_of(result, result.artefacts[name]))
    if one.size > MOST_LOG_BYTES:
        raise LogUnreadable(f"{one.path} has more than {MOST_LOG_BYTES} bytes")
    return b"".join(files.pieces(one))


def _parsed(files: Mapping[str, bytes]) -> RunLogs:
    """Return what a result's logs say; raises LogUnreadable, and what odd values raise."""
    judged, by_role = files.get(_ACCURACY_DETAIL), dict[str, dict[str, bytes]]()
    for artefact, content in files.items():
        role, name = LOGS[artefact]
        by_role.setdefault(role, {})[name] = content
    told = by_role["performance"]
    run = run_of({name: content for name, content in told.items() if name != TRACE})
    contradiction(run)  # which raises for what LoadGen never writes
    doubts = {role: doubt(of) for role, of in by_role.items() if DETAIL in of}
    return RunLogs(
        run.detail.log,
        None if judged is None else DetailLog.parse(judged.decode()),
        tuple(f"log_{role}: {why}" for role, why in doubts.items() if why),
    )


@contextmanager
def _new_folder(output: Path) -> Iterator[Path]:
    """Give a folder that becomes `output` when it is whole; raises UserError."""
    try:
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise UserError(f"write {output}", "it exists already", "Name a new folder.")
        with replacing_folder(output) as new:
            yield new
    except OSError as error:
        seen = error.strerror or str(error)
        raise UserError(f"write {output}", seen, "Name a folder that you can write.") from error


def _say_some(lines: Sequence[str]) -> None:
    for line in lines[:LINES_SAID]:
        say(f"  {line}")
    if (more := len(lines) - LINES_SAID) > 0:
        say(f"  and {more} more")
