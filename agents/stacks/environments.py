"""The stacks' own Python environments: their folders, and the state of their installation."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import agents
from controller.contracts.base import Contract, digest
from controller.contracts.documents import read_json
from controller.contracts.folders import named_folder
from controller.contracts.manifests import StackEnvironment
from controller.contracts.unreadable import UNREADABLE
from controller.platform.atomic import replacing, write_private

STACKS_VARIABLE = "BENCHFARM_STACKS"
STATE = "install.json"
"""The file of an InstallState."""


def stacks_folder(home: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of environments: BENCHFARM_STACKS, which farms may share, or one in the
    home; raises HomeUnusable."""
    return named_folder(STACKS_VARIABLE, home / "stacks", environ)


class InstallState(Contract):
    """The state of an environment's installation; stored in its folder."""

    origin: str
    """Which Python created it, and its path: an environment can't be moved."""
    done: tuple[str, ...] = ()
    """Pins that are completely installed."""
    lock: str | None = None
    """Digest of the lock file, once all its pins are installed and compatible."""


@dataclass(frozen=True, slots=True)
class EnvironmentFolder:
    """The environment of one stack, installed or not."""

    path: Path
    environment: StackEnvironment

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.path / "bin" / "python"

    @property
    def state(self) -> InstallState | None:
        """The stored state of its installation; None if there is none."""
        try:
            return read_json(InstallState, self.path / STATE)
        except UNREADABLE:
            return None

    @property
    def is_installed(self) -> bool:
        """Whether it has exactly what this release requires."""
        state = self.state
        return state is not None and state.origin == self.origin and state.lock == self.lock

    def note(self, state: InstallState) -> None:
        """Replace the stored state, which farms of other users may read."""
        with replacing(self.path / STATE) as new:
            write_private(new, state.model_dump_json())
            new.chmod(0o644)

    def share(self) -> None:
        """Let farms of other users read the state, which earlier releases kept to their own."""
        with suppress(OSError):  # another's farm has installed it
            (self.path / STATE).chmod(0o644)

    @property
    def reusable(self) -> InstallState | None:
        """The stored state, if everything installed is still required."""
        state = self.state
        if state is None or state.origin != self.origin or not set(state.done) <= set(self.pins):
            return None
        return state

    @property
    def origin(self) -> str:
        """See InstallState."""
        return digest([str(self.path), sys.version])

    @property
    def lock(self) -> str:
        """The digest of its lock."""
        return digest(list(self.pins))

    @property
    def pins(self) -> tuple[str, ...]:
        """The lines NAME==VERSION of its lock, in order of installation."""
        lock = Path(agents.__path__[0]) / self.environment.lock
        lines = (line.partition("#")[0].strip() for line in lock.read_text().splitlines())
        return tuple(line for line in lines if line)
