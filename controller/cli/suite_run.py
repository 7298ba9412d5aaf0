"""`benchfarm suite run`: one session of the mobile suite on one device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

import typer

from controller.cli.common import home, parse_seconds, reading_here, require_this_host
from controller.cli.references import device_of
from controller.cli.session_farm import DeviceFarm, carry_on
from controller.cli.suite_view import judge_of, show_session, summaries_of, version_rules
from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.device import (
    RegisteredAgent,
    RegisteredDevice,
)
from controller.contracts.errors import NotFound, UserError
from controller.contracts.mobile import SURROGATE
from controller.contracts.suite_rules import SuiteRules
from controller.contracts.suite_session import SessionSummary
from controller.contracts.sweep import Cell
from controller.platform.terminal import LONGEST, say
from controller.runtime.stored_files import stored_files_now
from controller.runtime.suite_runner import SessionRunner
from controller.runtime.suite_sessions import read_sessions, session_ids
from controller.scheduling.expansion import cells_of
from controller.scheduling.model_files import hosts_without, needed_files
from controller.scheduling.suite_plan import Place, SuitePlan, newest_of, parts_of
from controller.scheduling.suite_session import Ended, Pauses, Session
from controller.store.protocol import FarmReader


def run(
    version: Annotated[str, typer.Argument(help="Version of the suite; see `suite list`.")],
    device: Annotated[str, typer.Option("--device", help="Device: its name or id.")],
    tries: Annotated[
        int, typer.Option(min=1, max=100, help="Tries of the suite; the rules ask for 5.")
    ] = 5,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", help="Task to run; repeatable. [default: all of the version]"),
    ] = None,
    stack: Annotated[str, typer.Option("--stack", help="Stack of all tasks.")] = "litert",
    numerics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TASK=]FORMAT",
            help="Number format of all tasks, or of one; repeatable. [default: each task's own]",
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TASK=]SET",
            help="Data set of all tasks, or of one; repeatable. [default: each task's own]",
        ),
    ] = None,
    length: Annotated[
        Literal["normal", "quick", "rapid"],
        typer.Option(help="Run length; only normal is by the rules."),
    ] = "normal",
    policy: Annotated[
        Literal["ci", "lab", "mlperf"],
        typer.Option(help="Run conditions; only mlperf is by the rules."),
    ] = "mlperf",
    task_pause: Annotated[
        str, typer.Option(metavar="LENGTH", help="Pause between tasks; the rules allow 0s to 5m.")
    ] = "0s",
    try_pause: Annotated[
        str, typer.Option(metavar="LENGTH", help="Pause between tries; the rules ask for 10m.")
    ] = "10m",
    surrogates: Annotated[
        bool, typer.Option("--surrogates", help="Run surrogates instead of the suite's models.")
    ] = False,
    without_optional: Annotated[
        bool,
        typer.Option("--without-optional", help="Leave out what the rules of the version let out."),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Start a new session, whatever there is.")
    ] = False,
) -> None:
    """Run or continue a session of a version on one device.

    The same call continues a session that was broken off. Exit status 0 if it meets all rules.
    """
    require_this_host("run the suite")
    pauses = Pauses(
        parse_seconds("--task-pause", task_pause), parse_seconds("--try-pause", try_pause)
    )
    rules, catalog = version_rules(version), load_catalog()
    tasks = _tasks(rules, task, catalog, surrogates=surrogates)
    knobs: dict[str, Mapping[str, Scalar]] = {
        "numerics": _by_task("numerics", numerics, tasks),
        "dataset": _by_task("dataset", dataset, tasks),
        "policy": dict.fromkeys(tasks, policy),
    }
    parts = parts_of(
        rules,
        tasks,
        _of_tasks(knobs),
        length=length,
        surrogates=surrogates,
        optional=not without_optional,
    )
    with reading_here() as store:
        registered, agents = device_of(store, device), store.fleet()[0]
        meant = registered.labelled
        plan = SuitePlan(
            suite=rules.title, version=rules.version, device=meant.id, stack=stack, parts=parts
        )
        sessions = session_ids(store, plan.place_of)
    cells = _cells(plan, catalog)
    number = newest_of(plan, sessions)
    session = plan.session(number + 1 if again or not number else number)
    farm = DeviceFarm(meant, session, partial(_read, plan, session))
    say(f"{rules.claim} on {meant.shown}{meant.likeness}: session {session}")
    if rules.seeds is None:
        say(f"the seeds of {rules.title} are not known, so no result can meet its rules")
    if session in sessions:
        _say_continued(farm.session(), len(parts) * tries)
    _require_files(registered, agents, cells, catalog, partial(stored_files_now, home()))
    ended = carry_on(SessionRunner(plan, tries, pauses, farm, judge_of(version).verdicts, say))
    found = _summary(plan, session)
    show_session(found, meant.shown)
    _say_lost(ended)
    raise typer.Exit(0 if found.meets_rules else 1)


def _read(plan: SuitePlan, id_: str, store: FarmReader) -> Session:
    (session,) = read_sessions(store, [id_], plan.place_of)
    return session


def _summary(plan: SuitePlan, id_: str) -> SessionSummary:
    with reading_here() as store:
        (found,) = summaries_of(store, [_read(plan, id_, store)])
    return found


def _tasks(
    rules: SuiteRules, given: Sequence[str] | None, catalog: Catalog, *, surrogates: bool
) -> list[str]:
    """Return the tasks that are meant; raises NotFound, UserError."""
    for name in given or ():
        if name not in rules.tasks:
            known = ", ".join(rules.tasks)
            tried = f"run task {name[:LONGEST]}"
            raise NotFound(tried, f"{rules.title} has no such task", f"Known: {known}.")
    tasks = [name for name in rules.tasks if not given or name in given]
    lacking = [name for name in tasks if name + SURROGATE not in catalog.workloads]
    if surrogates and lacking:
        seen = f"there is none of {', '.join(lacking)}"
        raise UserError("use --surrogates", seen, "Choose other tasks with --task.")
    return tasks


def _by_task(option: str, given: Sequence[str] | None, tasks: Sequence[str]) -> dict[str, Scalar]:
    """Return what an option [TASK=]VALUE says of each task; one that names a task wins."""
    parted = [text.rpartition("=") for text in given or ()]
    found: dict[str, Scalar] = {}
    for task, equals, value in sorted(parted, key=lambda words: bool(words[1])):
        typed = f"use --{option} {(task + equals + value)[:LONGEST]!r}"
        if not value:
            raise UserError(typed, "it is empty", f"Write `--{option} TASK=VALUE`.")
        if equals and task not in tasks:
            raise UserError(typed, "that task is not run", f"Known: {', '.join(tasks)}.")
        found |= dict.fromkeys([task] if equals else tasks, value)
    return found


def _of_tasks(knobs: Mapping[str, Mapping[str, Scalar]]) -> dict[str, dict[str, Scalar]]:
    """Return the knobs of each task, from the tasks of each knob."""
    found: dict[str, dict[str, Scalar]] = {}
    for knob, values in knobs.items():
        for name, value in values.items():
            found.setdefault(name, {})[knob] = value
    return found


def _cells(plan: SuitePlan, catalog: Catalog) -> list[Cell]:
    """Return the cell of each part of a plan; raises SweepInvalid if one can't be run."""
    found: list[Cell] = []
    for number, part in enumerate(plan.parts):
        sweep = plan.sweep(Place(plan.session(1), 1, number))
        found += cells_of(sweep, catalog, f"of {plan.suite}, {part.label}")
    return found


def _require_files(
    device: RegisteredDevice,
    agents: Sequence[RegisteredAgent],
    cells: Sequence[Cell],
    catalog: Catalog,
    stored: Callable[[], Mapping[str, Collection[str]]],
) -> None:
    """Raise UserError if a device's host lacks a model or data set; say so if that is unknown.

    A part without its files would fail, and a session with a part that has failed can no longer be
    whole. stored: returns what is in the store of each host that has said it, by agent.
    """
    needed = [(device.agent_id, files) for cell in cells if (files := needed_files(cell, catalog))]
    if not needed:
        return
    hosts = {registered.agent.id: registered.agent.host for registered in agents}
    for found in hosts_without(needed, hosts, stored()):
        if found.known:
            seen = f"its host {found.host} lacks {found.names}"
            tried = f"run the suite on {device.labelled.shown}"
            raise UserError(tried, seen, f"There, run `{found.command}`.")
        say(found.line)


def _say_continued(session: Session, runs: int) -> None:
    done, of = sum(run.state.terminal for run in session.runs), max(runs, len(session.runs))
    say(f"continued: {done} of {of} runs have ended; --again starts a new session")


def _say_lost(ended: Ended) -> None:
    for run in ended.lost:
        why = run.failure or str(run.state)
        say(f"no further tries, because {run.label} has no result: {why}", err=True)
    if ended.lost:
        say("once it is mended, start a new session with --again", err=True)
