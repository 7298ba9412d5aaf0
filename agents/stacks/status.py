"""Whether stacks can run on this host, and their details."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from agents.host.compiler import MISSING, compiler
from agents.stacks.environments import EnvironmentFolder
from agents.stacks.interpreter import command_in
from controller.contracts.catalog import user_tasks
from controller.contracts.command import Command
from controller.contracts.errors import UserError
from controller.contracts.manifests import StackManifest, defaults_of
from controller.contracts.plugins import OURS, Plugin
from controller.contracts.stacks import StackDetails, StackStatus
from controller.platform.inherited import inherited
from controller.platform.programs import PYTHON, PYTHON_MODES, python_module
from models.mobile.store import Store


class StackBroken(UserError):
    """A stack that is installed but does not start."""


def status_of(stack: StackManifest, stacks: Path, plugin: Plugin | None = None) -> StackStatus:
    """Return whether a stack can run here.

    stacks: the folder of the environments; plugin: the one that brings it.
    """
    problem, place = _looked_at(stack, stacks)
    return StackStatus(
        name=stack.name,
        title=stack.title,
        device_kinds=stack.device_kinds,
        ready=problem is None,
        detail=problem or place,
        plugin=plugin,
    )


def details_of(stack: StackManifest, stacks: Path, plugin: Plugin | None = None) -> StackDetails:
    """Return all details of a stack, from its interpreter; raises StackBroken.

    As status_of.
    """
    status = status_of(stack, stacks, plugin)
    known = status.model_dump()
    if not status.ready or stack.backend is None:
        return StackDetails(**known)
    python = _folder(stack, stacks).python if stack.environment else PYTHON
    said = _asked(stack, python)
    return StackDetails(**known, interpreter=str(python), **said)


def _looked_at(stack: StackManifest, stacks: Path) -> tuple[str | None, str]:
    """Return what is wrong, if anything, and where the stack runs."""
    if stack.command:
        try:
            lacking = list(_lacking(stack, stack.command))
        except OSError as error:  # such as another user's home
            return f"the store of models can't be read: {error.strerror}", ""
        add = ", ".join(f"`benchfarm models add FILE --as {key}`" for key in lacking)
        return (f"run {add}" if lacking else None), "its own program, on the device"
    if stack.backend is None:
        return None, f"its bundle {stack.bundle} is built when it is first needed"
    if stack.environment:
        folder = _folder(stack, stacks)
        remedy = f"run `benchfarm stacks install {stack.name}`"
        seen = "incomplete, or of another release" if folder.state else "not installed"
        return (None if folder.is_installed else f"{seen}; {remedy}"), str(folder.path)
    if find_spec("torch") is None:
        return "torch is not installed; run `make setup` or `pip install benchfarm[torch]`", ""
    if stack.needs_compiler and compiler() is None:
        return MISSING, ""
    return None, sys.prefix


def _lacking(stack: StackManifest, command: Command) -> Iterator[str]:
    """Yield the files missing in the store of models that a run with default knobs needs."""
    store = Store(user_tasks().parent)
    defaults = defaults_of(stack.knobs)
    for file, known in command.needed(defaults).items():
        key = f"{stack.name}/files/{file}"
        checksum = known.checksum or store.pinned(key)
        if not (checksum and store.has(checksum)):
            yield key


def _folder(stack: StackManifest, stacks: Path) -> EnvironmentFolder:
    if stack.environment is None:
        raise ValueError(f"stack {stack.name} has no environment of its own")
    return EnvironmentFolder(stacks / stack.name, stack.environment)


def _asked(stack: StackManifest, python: Path) -> dict[str, object]:
    module = "agents.stacks.probe"
    command = command_in(python, module) if stack.environment else python_module(module)
    threads = str(len(os.sched_getaffinity(0)))
    done = subprocess.run(
        [*command, stack.name],
        env={**inherited(os.environ), **PYTHON_MODES, "OMP_NUM_THREADS": threads},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        backend = str(stack.backend).partition(":")[0]
        imported = "torch" if backend.partition(".")[0] in OURS else backend
        raise StackBroken(
            f"start stack {stack.name}",
            last,
            f"Run `{python} -c 'import {imported}'` to see the whole error.",
        )
    said: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return said
