"""`benchfarm suite run`: one session of the mobile suite on one device."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

import typer

from controller.cli.common import console, home, parse_seconds, reading, require_this_host
from controller.cli.progress import show_sweep
from controller.cli.references import device_of
from controller.cli.suite_view import judge_of, show_session, summaries_of, version_rules
from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.device import (
    Device,
    DeviceState,
    RegisteredAgent,
    RegisteredDevice,
)
from controller.contracts.errors import NotFound, UserError
from controller.contracts.mobile import SURROGATE
from controller.contracts.suite_rules import SuiteRules
from controller.contracts.suite_session import SessionSummary
from controller.contracts.sweep import Cell, Sweep
from controller.platform.interrupted import INTERRUPTED
from controller.platform.terminal import LONGEST, say
from controller.runtime.client import FarmClient
from controller.runtime.fleet import DeviceOverview, devices_now
from controller.runtime.stored_files import stored_files_now
from controller.runtime.suite_runner import SessionRunner, Timer
from controller.runtime.suite_sessions import read_sessions, session_ids
from controller.scheduling.expansion import cells_of
from controller.scheduling.model_files import hosts_without, needed_files
from controller.scheduling.suite_plan import Place, SuitePlan, newest_of, parts_of
from controller.scheduling.suite_session import Ended, Pauses, Session

AWAY: Final = (DeviceState.OFFLINE, DeviceState.LOST)
"""States of a device that a session waits out for a while: a touched cable or an agent that starts
again brings it back within seconds."""
RETURN_S: Final = 120.0
"""How long a device may stay away before a part."""
UNUSABLE: Final = (*AWAY, DeviceState.UNAUTHORIZED, DeviceState.QUARANTINED)
"""States of a device in which a session is not carried on: nobody knows how long they last."""
LOOK_S: Final = 1.0
"""Between two looks for a device that is away."""
WAITED_FOR: Final = (
    DeviceState.BUSY,
    DeviceState.COOLING,
    DeviceState.RESERVED,
    DeviceState.DRAINED,
)
"""States in which a part waits in the queue."""


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
    with reading() as store:
        registered, agents = device_of(store, device), store.fleet()[0]
        sessions = session_ids(store)
    meant = registered.labelled
    plan = SuitePlan(
        suite=rules.title, version=rules.version, device=meant.id, stack=stack, parts=parts
    )
    cells = _cells(plan, catalog)
    number = newest_of(plan, sessions)
    session = plan.session(number + 1 if again or not number else number)
    farm = _Farm(meant, session)
    say(f"{rules.claim} on {meant.shown}{meant.likeness}: session {session}")
    if rules.seeds is None:
        say(f"the seeds of {rules.title} are not known, so no result can meet its rules")
    if session in sessions:
        _say_continued(farm.session(), len(parts) * tries)
    _require_files(registered, agents, cells, catalog, partial(stored_files_now, home()))
    ended = _carry_on(SessionRunner(plan, tries, pauses, farm, judge_of(version).verdicts, say))
    found = farm.summary()
    show_session(found, meant.shown)
    _say_lost(ended)
    raise typer.Exit(0 if found.meets_rules else 1)


def _carry_on(runner: SessionRunner) -> Ended:
    """Carry a session to its end; on ^C, say how to go on."""
    try:
        return runner.run()
    except KeyboardInterrupt:
        say(err=True)
        say(f"a part under way goes on; continue the session with: {_call()}", err=True)
        raise typer.Exit(INTERRUPTED) from None


@dataclass(slots=True)
class _Farm:
    """The farm of this host, for one session on one device."""

    device: Device
    id: str

    def session(self) -> Session:
        with reading() as store:
            (session,) = read_sessions(store, [self.id])
        return session

    def summary(self) -> SessionSummary:
        with reading() as store:
            (found,) = summaries_of(store, read_sessions(store, [self.id]))
        return found

    def submit(self, sweep: Sweep) -> None:
        self._require_usable()
        FarmClient(home()).submit(sweep)

    def follow(self, sweep_id: str) -> None:
        show_sweep(FarmClient(home()), sweep_id, console())

    def _require_usable(self) -> None:
        """Say what the device is busy with; raise UserError if nothing runs on it."""
        found = _once_back(self._overview, Timer())
        seen = f"it is {found.state}" + (f": {found.why}" if found.why else "")
        if found.state in UNUSABLE:
            remedy = f"Bring it back, then continue with `{_call()}`."
            if found.state is DeviceState.QUARANTINED:
                remedy = f"Run `benchfarm device release {self.device.id}`, then `{_call()}`."
            raise UserError(f"carry on session {self.id} on {self.device.shown}", seen, remedy)
        if found.state in WAITED_FOR:
            say(f"{self.device.shown} is {found.state} ({found.why}); the part waits for it")

    def _overview(self) -> DeviceOverview:
        with reading() as store:
            known = devices_now(home(), store, store.runs(open_only=True))
        found = next((each for each in known if each.device.id == self.device.id), None)
        if found is None:
            seen = "the farm no longer knows it"
            raise NotFound(f"carry on session {self.id}", seen, f"Bring {self.device.shown} back.")
        return found


def _once_back(look: Callable[[], DeviceOverview], timer: Timer) -> DeviceOverview:
    """Return how a device stands, once it is there or has been away for too long."""
    found, until = look(), timer.now() + RETURN_S
    if found.state in AWAY:
        say(f"{found.device.shown} is {found.state} ({found.why}); waiting {RETURN_S:.0f} s for it")
    while found.state in AWAY and timer.now() < until:
        timer.sleep(LOOK_S)
        found = look()
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


def _call() -> str:
    """Return the command that continues the session."""
    return shlex.join(["benchfarm", *(word for word in sys.argv[1:] if word != "--again")])
