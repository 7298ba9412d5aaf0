"""What is pushed to a device, checked first: a runtime's bundle, a task's model and inputs."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from agents.host.helper_process import ask_process, harness_fault
from agents.inference.bundle.build import Bundle, build_bundle, found_bundle
from agents.inference.bundle.recipe import (
    BundleInterrupted,
    Recipe,
    load_recipe,
    recipe_named,
    recipe_names,
)
from agents.inference.bundle.requirements import Requirements
from agents.remotes.tree import Tree
from controller.contracts.base import Scalar, digest
from controller.contracts.catalog import user_tasks
from controller.contracts.command import Command, CommandFile
from controller.contracts.mobile import OnDevice
from controller.contracts.result import Environment
from controller.platform.user_cache import user_cache
from models.mobile.origin import origin_of
from models.mobile.preparation import (
    DEVICE,
    MODEL,
    Compared,
    CompareOrder,
    Prepared,
    PrepareOrder,
    Scored,
    ScoreOrder,
)
from models.mobile.store import Store, pins_of, stored

DEADLINE_S = 1800.0
"""Seconds for preparing or scoring a task; decoding a whole data set takes minutes."""
PREPARER = "models.mobile"


def cache_folder() -> Path:
    """Return the folder of bundles, shared by all farms of this user: a build cache, not state."""
    return user_cache("bundles")


LIBC = "libc.so.6"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A bundle that can be pushed, and a small part of it that shows whether it would start."""

    name: str
    """`<runtime>-<arch>`."""
    tree: Tree
    starter: Tree
    """The dynamic loader and C library alone, 2 MB; not executable in this tree."""
    loader: str
    """File name of the loader."""
    requirements: Requirements

    @classmethod
    def of(cls, bundle: Bundle, recipe: Recipe, archives: Path) -> Runtime:
        """Pack a bundle's starter; its tar is kept in `archives`. Raises TreeInvalid, OSError."""
        archives.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archives) as name:
            for file in (recipe.loader, LIBC):
                shutil.copyfile(bundle.folder / "lib" / file, Path(name) / file)
            starter = Tree.of(Path(name), archives)
        tree = Tree.of(bundle.archive, archives)
        return cls(recipe.name, tree, starter, recipe.loader, bundle.requirements)


@dataclass(frozen=True, slots=True)
class Ready:
    """A prepared task, which can be pushed."""

    tree: Tree
    workload: OnDevice
    folder: Path
    """The task's folder, including the true answers, which are not pushed."""
    samples: int
    """Number of samples; 0: the device generates random ones."""
    has_truth: bool
    origin: str | None = None
    """The published checksums that vouch for samples and truth; None: not known."""
    checksums: tuple[str, ...] = ()
    """Of the parts of its data set, as PART CHECKSUM."""


@dataclass(slots=True)
class Content:
    """Everything that can be pushed; each item is prepared once, and by one task at a time."""

    folder: Path
    """This agent's folder for prepared tasks and tars."""
    bundles: Path
    store: Path = field(default_factory=lambda: user_tasks().parent)
    """The store of models and data sets."""
    deadline_s: float = DEADLINE_S
    """For getting a task ready."""
    _runtimes: dict[str, Runtime] = field(default_factory=dict)
    _ready: dict[str, Ready] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def runtime(self, name: str, arch: str) -> Runtime:
        """Return a runtime's bundle, built unless it exists; raises BundleUnbuildable, and
        WorkerFault if the build was killed."""
        recipe = load_recipe(name, arch)
        async with self._making:
            if recipe.name not in self._runtimes:
                try:
                    bundle = await asyncio.to_thread(build_bundle, self.bundles, recipe)
                except BundleInterrupted as error:
                    raise harness_fault("signal", str(error)) from error
                await self._take(bundle, recipe)
            return self._runtimes[recipe.name]

    async def runtimes_built(self, arch: str) -> list[Runtime]:
        """Return the bundles of an architecture that exist already, without building any."""
        recipes = [r for r in map(recipe_named, recipe_names()) if r.arch == arch]
        async with self._making:
            for recipe in recipes:
                if recipe.name in self._runtimes:
                    continue
                if bundle := await asyncio.to_thread(found_bundle, self.bundles, recipe):
                    await self._take(bundle, recipe)
            return [self._runtimes[r.name] for r in recipes if r.name in self._runtimes]

    async def _take(self, bundle: Bundle, recipe: Recipe) -> None:
        made = await asyncio.to_thread(Runtime.of, bundle, recipe, self.folder)
        self._runtimes[recipe.name] = made

    async def files(self, stack: str, command: Command, knobs: Mapping[str, Scalar]) -> Tree:
        """Return the files that a run of a user's program needs, checked, under their names on the
        device.

        Raises UserError, naming the file: NotInStore, ContentDiffers or FileUnreadable.
        """
        store = Store(self.store)
        async with self._making:
            return await asyncio.to_thread(self._packed, store, stack, command.needed(knobs))

    def _packed(self, store: Store, stack: str, files: Mapping[str, CommandFile]) -> Tree:
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            for file, known in files.items():
                source = stored(store, known, f"{stack}/files/{file}")
                target = Path(name) / (known.filename or file)
                if source.is_dir():
                    shutil.copytree(source, target, copy_function=shutil.copyfile)
                else:
                    shutil.copyfile(source, target)
                    target.chmod(0o755 if known.executable else 0o644)
            return Tree.of(Path(name), self.folder)

    async def task(
        self, name: str, workload: OnDevice, numerics: str, dataset: str | None
    ) -> Ready:
        """Return a prepared task, whose model and data set have been checked.

        Raises UserError, naming file and field (NotInStore, ContentDiffers, ModelUnusable or
        DatasetUnusable in the preparing process), and WorkerFault if that process was killed.
        """
        # Pins are read each time: a file that was added again makes another task.
        pins = pins_of(Store(self.store), name, workload, numerics, dataset)
        origin = origin_of(Store(self.store), name, workload, dataset, pins)
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
                done = await ask_process(PREPARER, "prepare", order, Prepared, self.deadline_s)
                tree = await asyncio.to_thread(Tree.of, folder / DEVICE, self.folder)
                self._ready[key] = Ready(tree, workload, folder, done.samples, done.has_truth)
            # Not in the key: what vouches for a content may come to be known later.
            checksums = _checksums(name, workload, dataset, pins)
            return replace(self._ready[key], origin=origin, checksums=checksums)


def _checksums(
    name: str, workload: OnDevice, dataset: str | None, pins: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the published checksum of each part of a data set, else the pinned one."""
    parts = workload.datasets[dataset].parts if dataset else {}
    known = {
        part: file.checksum or pins.get(f"{name}/{dataset}/{part}") for part, file in parts.items()
    }
    return tuple(f"{part} {checksum}" for part, checksum in known.items() if checksum)


def identity_of(runtime: Runtime, ready: Ready) -> Environment:
    """Return the facts that identify what is pushed: bundle, model, data set and inputs."""
    listing = dict(ready.tree.listing)
    model = listing.pop(MODEL, "").rpartition(" ")[2]
    facts: Environment = {"bundle": f"{runtime.name} {runtime.tree.digest}"}
    if model:
        facts["model_sha256"] = model
    if ready.checksums:
        facts["dataset_checksums"] = ready.checksums
    if ready.samples:
        facts["inputs_digest"] = digest(listing, 32)
    return facts


async def compare_answers(ready: Ready, answers: Path, reference: Path, compared: int) -> Compared:
    """Compare an accuracy run's answers with a reference's; raises UserError, WorkerFault."""
    order = CompareOrder(
        workload=ready.workload,
        folder=ready.folder,
        samples=ready.samples,
        answers=answers,
        compared=compared,
        reference=reference,
    )
    return await ask_process(PREPARER, "compare", order, Compared, DEADLINE_S)


async def score_answers(ready: Ready, answers: Path, repeated: int) -> Scored:
    """Score an accuracy run from LoadGen's log; repeated: see `run_length.repeats`.

    Raises UserError, WorkerFault.
    """
    order = ScoreOrder(
        workload=ready.workload,
        folder=ready.folder,
        samples=ready.samples,
        answers=answers,
        repeated=repeated,
    )
    return await ask_process(PREPARER, "score", order, Scored, DEADLINE_S)
