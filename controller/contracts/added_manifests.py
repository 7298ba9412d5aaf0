"""Tasks and programs that the user has added: what they may say, and that no name has two meanings.

One with anything wrong is left out alone: it breaks only the sweeps that name it. A name that two
of them have is neither's: if one went first, its order alone would decide what a sweep measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from controller.contracts.documents import load_yaml, read_limited, short
from controller.contracts.errors import HomeUnusable, SweepInvalid
from controller.contracts.facts import OwnFact
from controller.contracts.fitting import fits
from controller.contracts.manifests import Knob, ScenarioManifest, StackManifest, WorkloadManifest
from controller.contracts.plugin_manifests import OWN, Manifests
from controller.contracts.plugins import LeftOut
from controller.contracts.suite_version import with_versions
from controller.contracts.unreadable import UNREADABLE, reason

POLICY, WITH_POLICY = "policy", "single_stream"
"""The knob for run conditions, and a scenario that has it."""
_RENAME: Final = "Give it another name."

Manifest = TypeVar("Manifest", WorkloadManifest, StackManifest)
Named = tuple[str, Mapping[str, Knob]]
"""A manifest, such as `stack torch`, and its knobs."""


def with_added(ours: Manifests, tasks: Path, programs: Path) -> tuple[Manifests, list[LeftOut]]:
    """Return benchfarm's manifests with the user's, and those of the user that are left out.

    tasks, programs: the folders that they are in.
    """
    known, writers = ours, writers_of(ours.workloads.values())
    read, left_out = _read_folder(WorkloadManifest, tasks)
    for path, manifest in read:
        task = with_versions(manifest)
        try:
            require_no_code(task, writers, path)
            _require_new("a workload", task.name, known.workloads, f"read task {path}")
            require_task_knobs(task, known, path)
        except SweepInvalid as error:
            left_out.append(_left_out(path, task.name, error.seen, error.remedy))
        else:
            known = known.joined(Manifests(OWN, {task.name: task}, {}, {}))
    found, unread = _read_folder(StackManifest, programs)
    left_out += unread
    for path, program in found:
        try:
            require_program(program, known, path)
        except SweepInvalid as error:
            left_out.append(_left_out(path, program.name, error.seen, error.remedy))
        else:
            own = scenarios_of([program], ours.scenarios)
            known = known.joined(Manifests(OWN, {}, {program.name: program}, own))
    return known, left_out


def scenarios_of(
    stacks: Iterable[StackManifest], scenarios: Mapping[str, ScenarioManifest]
) -> dict[str, ScenarioManifest]:
    """Return the scenario of each stack that is a program; scenarios: benchfarm's."""
    policy = {POLICY: scenarios[WITH_POLICY].knobs[POLICY]}
    return {
        stack.name: ScenarioManifest(
            name=stack.name, title=stack.title, metric=stack.command.result, knobs=policy
        )
        for stack in stacks
        if stack.command
    }


def require_program(stack: StackManifest, known: Manifests, path: Path) -> None:
    """Raise SweepInvalid if a user's stack is not a program, or if a name has a meaning already:
    its own, that of a fact, or that of a knob in one of its cells."""
    tried, remedy = f"read stack {path}", "See docs/adding.md, A program of your own."
    if stack.command is None or stack.environment is not None:
        raise SweepInvalid(tried, "it names code, which a user's stack must not do", remedy)
    taken = known.stacks.keys() | known.scenarios.keys()
    _require_new("a stack or a scenario", stack.name, taken, tried)
    require_one_meaning([*known.stacks.values(), *known.scenarios.values(), stack])
    run = (w for w in known.workloads.values() if fits(w, stack))
    _require_own_knobs(
        tried,
        (f"stack {stack.name}", stack.knobs),
        [
            *((f"workload {workload.name}", workload.knobs) for workload in run),
            *_scenarios(scenarios_of([stack], known.scenarios)),
        ],
    )


def require_no_code(task: WorkloadManifest, allowed: Collection[str], path: Path) -> None:
    """Raise SweepInvalid if a user's task names code, which would be imported and called.

    allowed: functions that the task may name, as `package.module:function`.
    """
    tried = f"read task {path}"
    if task.builder is not None:
        seen = f"key builder: {short(task.builder)} is code, which a user's task must not name"
        raise SweepInvalid(tried, seen, "Describe it with on_device, as in docs/adding.md.")
    if others := sorted(writers_of([task]) - set(allowed)):
        seen = f"writer {short(others[0])} is not one that the project's own tasks name"
        raise SweepInvalid(tried, seen, f"Known: {', '.join(sorted(allowed))}.")


def require_task_knobs(task: WorkloadManifest, known: Manifests, path: Path) -> None:
    """Raise SweepInvalid if a knob of a user's task is that of another manifest of a cell, too."""
    stacks = [stack for stack in known.stacks.values() if fits(task, stack)]
    driving = {*task.scenarios, *(stack.name for stack in stacks if stack.command)}
    _require_own_knobs(
        f"read task {path}",
        (f"workload {task.name}", task.knobs),
        [
            *((f"stack {stack.name}", stack.knobs) for stack in stacks),
            *_scenarios({n: one for n, one in known.scenarios.items() if n in driving}),
        ],
    )


def require_one_meaning(owners: Iterable[StackManifest | ScenarioManifest]) -> None:
    """Raise SweepInvalid if two manifests declare one fact in different ways."""
    known: dict[str, tuple[str, OwnFact]] = {}
    for owner in owners:
        for name, fact in owner.facts.items():
            first, declared = known.setdefault(name, (owner.name, fact))
            if declared != fact:
                seen = f"{first} declares the fact {name} in another way"
                remedy = "Rename the fact, or declare it in the same way."
                raise SweepInvalid(f"read the manifest of {owner.name}", seen, remedy)


def writers_of(workloads: Iterable[WorkloadManifest]) -> frozenset[str]:
    """Return the functions that write the data sets of tasks, as `package.module:function`."""
    devices = (w.on_device for w in workloads if w.on_device)
    return frozenset(d.writer for o in devices for d in o.datasets.values() if d.writer)


def _scenarios(scenarios: Mapping[str, ScenarioManifest]) -> list[Named]:
    return [(f"scenario {name}", scenario.knobs) for name, scenario in scenarios.items()]


def _require_own_knobs(tried: str, own: Named, others: Iterable[Named]) -> None:
    """Raise SweepInvalid if a knob is that of another manifest, too: one would win silently."""
    what, knobs = own
    for other, theirs in others:
        if both := sorted(knobs.keys() & theirs.keys()):
            seen = f"{what} and {other} both declare the knob {both[0]}"
            raise SweepInvalid(tried, seen, f"Give the knob of {what} another name.")


def _require_new(noun: str, name: str, taken: Collection[str], tried: str) -> None:
    if name in taken:
        raise SweepInvalid(tried, f"{noun} {name!r} exists already", _RENAME)


def files_in(folder: Path) -> list[Path]:
    """Return the files of manifests in a folder, if there is one; raises HomeUnusable."""
    try:
        return sorted(folder.glob("*.yaml"))
    except OSError as error:
        remedy = "Set BENCHFARM_HOME to a folder that you can read, or be the user of its farm."
        raise HomeUnusable(f"read {folder}", reason(error), remedy) from error


def _read_folder(
    kind: type[Manifest], folder: Path
) -> tuple[list[tuple[Path, Manifest]], list[LeftOut]]:
    """Return the manifests in a folder, and those that can't be read or told apart.

    Raises HomeUnusable.
    """
    read: list[tuple[Path, Manifest]] = []
    left_out: list[LeftOut] = []
    for path in files_in(folder):
        try:
            read.append((path, kind.model_validate(load_yaml(read_limited(path)))))
        except UNREADABLE as error:
            remedy = "Correct the file, or remove it."
            left_out.append(_left_out(path, path.stem, reason(error), remedy))
    shared = Counter(manifest.name for _, manifest in read)
    for path, manifest in read:
        if shared[manifest.name] > 1:
            seen = f"another file of its folder has the name {manifest.name!r}, too"
            left_out.append(_left_out(path, manifest.name, seen, _RENAME))
    return [(path, one) for path, one in read if shared[one.name] == 1], left_out


def _left_out(path: Path, name: str, seen: str, remedy: str) -> LeftOut:
    return LeftOut(
        noun="manifests",
        name=_text(name),
        what=_text(f"manifest {path}"),
        seen=_text(seen),
        remedy=_text(remedy),
    )


def _text(said: str) -> str:
    """Return a text that JSON can hold: a file's name, or a key in it, need not be UTF-8."""
    return said.encode(errors="backslashreplace").decode()
