"""What a device is sent: the runtime's bundle, and a task's model and inputs; checked first."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from agents.android.bundle.build import build_bundle
from agents.android.bundle.recipe import BundleInterrupted, load_recipe
from agents.host.oom import offer_to_oom_killer, oom_kills
from agents.transports.exit_reason import WorkerExit, outcome_of
from agents.transports.tree import Tree
from controller.contracts.base import Contract, digest
from controller.contracts.catalog import user_tasks
from controller.contracts.command import Command
from controller.contracts.complaint import COMPLAINED, Complaint
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.inherited import inherited
from controller.contracts.mobile import OnDevice
from controller.contracts.programs import SAFE_PATH, python_module
from controller.contracts.result import Blame, Failure, Outcome
from models.mobile.store import Store, pins_of, stored
from models.mobile.work import DEVICE, Prepared, PrepareOrder, Scored, ScoreOrder

Answer = TypeVar("Answer", bound=Contract)
DEADLINE_S = 1800.0
"""For getting a task ready, or scoring it: a whole data set is decoded in minutes."""
LAST_BYTES = 2**14


def cache_folder() -> Path:
    """Return where bundles are kept for every farm of this user: it is a build, not a state."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "benchfarm" / "bundles"


@dataclass(frozen=True, slots=True)
class Ready:
    """A task that can be pushed."""

    tree: Tree
    workload: OnDevice
    folder: Path
    """With what is true of its samples, which is not pushed."""
    samples: int
    """0: the device makes its inputs up."""
    has_truth: bool


@dataclass(slots=True)
class Content:
    """What is ready to be pushed; each is made once, and in one place at a time."""

    folder: Path
    """Of this agent: tasks got ready, and tars."""
    bundles: Path
    store: Path = field(default_factory=lambda: user_tasks().parent)
    """Of models and data sets."""
    _bundles: dict[str, Tree] = field(default_factory=dict)
    _ready: dict[str, Ready] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def bundle(self, runtime: str, arch: str) -> Tree:
        """Return a runtime's bundle, built if it isn't yet; raises BundleUnbuildable, WorkerFault
        if a program that builds it was killed."""
        key = f"{runtime} {arch}"
        async with self._making:
            if key not in self._bundles:
                make: Callable[[], Tree] = lambda: Tree.of(  # noqa: E731
                    build_bundle(self.bundles, load_recipe(runtime, arch)).archive, self.folder
                )
                try:
                    self._bundles[key] = await asyncio.to_thread(make)
                except BundleInterrupted as error:
                    raise _fault("signal", str(error)) from error
            return self._bundles[key]

    async def files(self, stack: str, command: Command) -> Tree:
        """Return the files of a user's program, checked, under the names that it calls them.

        Raises UserError, naming the file: NotInStore, ContentDiffers or FileUnreadable.
        """
        store = Store(self.store)
        async with self._making:
            return await asyncio.to_thread(self._packed, store, stack, command)

    def _packed(self, store: Store, stack: str, command: Command) -> Tree:
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            for file, known in command.files.items():
                source = stored(store, known, f"{stack}/files/{file}")
                target = Path(shutil.copyfile(source, Path(name) / file))
                target.chmod(0o755 if known.executable else 0o644)
            return Tree.of(Path(name), self.folder)

    async def task(
        self, name: str, workload: OnDevice, numerics: str, dataset: str | None
    ) -> Ready:
        """Return a task whose model and data set have been checked.

        Raises UserError, naming file and field: NotInStore, ContentDiffers, ModelUnusable or
        DatasetUnusable in the process that does the work. Raises WorkerFault if that was killed.
        """
        # Pins are read each time: what was added anew is another task.
        pins = pins_of(Store(self.store), name, workload, numerics, dataset)
        key = digest([name, workload.model_dump(mode="json"), numerics, dataset, pins])
        async with self._making:
            if key not in self._ready:
                folder = self.folder / key
                order = PrepareOrder(
                    name=name,
                    workload=workload,
                    numerics=numerics,
                    dataset=dataset,
                    store=self.store,
                    folder=folder,
                )
                done = await _asked("prepare", order, Prepared)
                tree = await asyncio.to_thread(Tree.of, folder / DEVICE, self.folder)
                self._ready[key] = Ready(tree, workload, folder, done.samples, done.has_truth)
            return self._ready[key]


async def score_answers(ready: Ready, answers: Path) -> Scored:
    """Score an accuracy run by LoadGen's log of it; raises UserError, WorkerFault."""
    order = ScoreOrder(
        workload=ready.workload, folder=ready.folder, samples=ready.samples, answers=answers
    )
    return await _asked("score", order, Scored)


async def _asked(verb: str, order: Contract, kind: type[Answer]) -> Answer:
    """Have a process of its own do the work; raises UserError.

    Raises WorkerFault, blame harness, if it was killed or is not done by its deadline: trying again
    can help. Blame workload, if the kernel ended it for memory, or if it crashed.
    """
    kills = oom_kills()
    process = await asyncio.create_subprocess_exec(
        *python_module("models.mobile", verb),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=inherited(os.environ) | SAFE_PATH,
    )
    try:
        offer_to_oom_killer(process.pid)
        async with asyncio.timeout(DEADLINE_S):
            said, trouble = await process.communicate(order.model_dump_json().encode())
    except TimeoutError as error:
        message = f"{verb} by models.mobile was not done after {DEADLINE_S:g} s"
        raise _fault("deadline", message) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    status, last = process.returncode or 0, _last_line(trouble)
    if status < 0:
        ended = WorkerExit(status, None, None, None, oom_kills() > kills, last)
        raise WorkerFault(_signalled(verb, outcome_of(ended)))
    try:
        if process.returncode == COMPLAINED:
            raise Complaint.model_validate_json(said).error()
        return kind.model_validate_json(said)
    except ValidationError as error:
        seen = f"the process ended with status {status}: {last}"
        raise UserError(f"{verb} by models.mobile", seen, "see that the model is sound") from error


def _last_line(trouble: bytes) -> str:
    lines = trouble[-LAST_BYTES:].decode(errors="replace").strip().splitlines()
    return (lines or ["it said nothing"])[-1]


def _signalled(verb: str, outcome: Outcome) -> Failure:
    if not isinstance(outcome, Failure):
        raise TypeError(f"{verb} by models.mobile: {outcome.type} of a process that was killed")
    message = f"{verb} by models.mobile: {outcome.message}"
    return outcome.model_copy(update={"message": message})


def _fault(kind: str, message: str) -> WorkerFault:
    return WorkerFault(Failure(blame=Blame.HARNESS, kind=kind, message=message))
