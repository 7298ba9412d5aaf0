"""What a device is sent: the runtime's bundle, and a workload's model and data; checked first."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from agents.android.bundle.build import build_bundle
from agents.transports.tree import Tree
from controller.contracts.catalog import OnDevice
from controller.contracts.errors import UserError

MODEL = "model.tflite"
DATASET = "dataset.npz"


class ContentDiffers(UserError):
    """A model or data set that is not the one its manifest names."""


def cache_folder() -> Path:
    """Return where bundles are kept for every farm of this user: it is a build, not a state."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "benchfarm" / "bundles"


@dataclass(slots=True)
class Content:
    """Trees that are ready to be pushed; each is made once, and in one place at a time."""

    folder: Path
    """Of this agent: data sets written, and tars."""
    bundles: Path
    _known: dict[str, Tree] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def bundle(self, runtime: str, arch: str) -> Tree:
        """Return a runtime's bundle, built if it isn't yet; raises BundleUnbuildable."""
        return await self._made(
            f"bundle {runtime} {arch}",
            lambda: Tree.of(build_bundle(self.bundles, runtime, arch).archive, self.folder),
        )

    async def workload(self, workload: OnDevice, numerics: str) -> Tree:
        """Return a folder of model.tflite and dataset.npz; raises ContentDiffers."""
        model = workload.models[numerics]
        key = f"{model.sha256[:16]}-{workload.dataset.sha256[:16]}"
        return await self._made(key, lambda: self._pack(workload, numerics, self.folder / key))

    async def _made(self, key: str, make: Callable[[], Tree]) -> Tree:
        async with self._making:
            if key not in self._known:
                self._known[key] = await asyncio.to_thread(make)
            return self._known[key]

    def _pack(self, workload: OnDevice, numerics: str, folder: Path) -> Tree:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        model = workload.models[numerics]
        content = files("models").joinpath(model.path).read_bytes()
        _require(f"model {model.path}", hashlib.sha256(content).hexdigest(), model.sha256)
        (folder / MODEL).write_bytes(content)
        module, _, name = workload.dataset.writer.partition(":")
        written = getattr(import_module(module), name)(folder / DATASET)
        _require(f"data set of {workload.dataset.writer}", written, workload.dataset.sha256)
        return Tree.of(folder, self.folder)


def _require(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise ContentDiffers(
            f"checking {what}", f"its checksum is {found}, not {expected}", "reinstall benchfarm"
        )
