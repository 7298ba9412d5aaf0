"""Commands that run our modules in a stack's interpreter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from agents.stacks.environments import EnvironmentFolder
from agents.stacks.plugins import plugin_folders
from controller.contracts.errors import WorkerFault
from controller.contracts.plugins import OURS
from controller.contracts.result import Blame, Failure
from controller.contracts.wire import TrainingProgram, WorkerSpec
from controller.platform.programs import python_file, python_module

WORKER_MODULE = "agents.worker"
NEEDED_IN_A_STACK = frozenset({"mlperf_loadgen", "numpy", "pydantic", "scipy", "torch", "yaml"})
"""Packages that a worker imports besides ours and the standard library; every stack has them."""
NO_PLUGINS: Mapping[str, Sequence[str]] = {}
_ENTRY = Path(__file__).with_name("entry.py")


def stack_worker(stacks: Path, spec: WorkerSpec) -> tuple[str, ...]:
    """Return the command of a job's worker; raises WorkerFault if its stack or a plugin is not
    installed.

    stacks: the folder of the stacks' environments.
    """
    program, stack = spec.job.program, spec.job.stack
    if not isinstance(program, TrainingProgram):
        return python_module(WORKER_MODULE)
    plugins = plugin_folders(program.plugins.values())
    if program.environment is None:
        return python_module(WORKER_MODULE)
    folder = EnvironmentFolder(stacks / stack, program.environment)
    if not folder.is_installed:
        seen = "installed for another release" if folder.state else "not installed"
        message = f"stack {stack} is {seen} in {stacks}. Run `benchfarm stacks install {stack}`."
        raise WorkerFault(Failure(blame=Blame.USER, kind="stack_not_installed", message=message))
    return command_in(folder.python, WORKER_MODULE, plugins)


def command_in(
    python: Path, module: str, plugins: Mapping[str, Sequence[str]] = NO_PLUGINS
) -> tuple[str, ...]:
    """Return the command that runs a module of ours in an interpreter without our packages.

    plugins: packages that it may import, too, with their folders.
    """
    found = {name: find_spec(name) for name in OURS}
    ours = {n: list(s.submodule_search_locations or ()) for n, s in found.items() if s}
    folders = {**ours, **plugins}
    return python_file(_ENTRY, json.dumps(folders), module, python=python)
