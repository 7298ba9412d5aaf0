"""Installation of a stack's Python environment, a few packages at a time: it can be resumed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from agents.stacks.environments import STACKS_VARIABLE, EnvironmentFolder, InstallState
from controller.contracts.errors import UserError
from controller.platform.inherited import inherited_to_fetch
from controller.platform.locks import exclusive_now
from controller.platform.programs import python_module

INDEX_VARIABLE = "BENCHFARM_TORCH_INDEX"
WHEELS_VARIABLE = "BENCHFARM_TORCH_WHEELS"
INDEX_ANSWERS_S = 5.0
AT_ONCE = 10
"""Packages that one call of pip installs: it takes seconds to start. An installation that was
interrupted continues after its last call."""
_CUDA_ONLY = ("nvidia-", "triton==")
"""Prefixes of pins that only a CUDA build of torch needs."""


class StackNotInstalled(UserError):
    """A stack's environment could not be installed."""


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation of one stack."""

    stack: str
    folder: EnvironmentFolder
    say: Callable[[str], None]
    environ: Mapping[str, str]
    at_once: int = AT_ONCE

    def run(self) -> None:
        """Complete the environment; raises StackNotInstalled."""
        if self.folder.is_installed:
            self.say(f"stack {self.stack}: is installed in {self.folder.path}")
            return
        started = time.monotonic()
        self._make_folder()
        with self._alone():
            self._announce()
            state = self._begun()
            state = self._install_torch(state)
            for pins in self._groups(state):
                self._install(pins, len(state.done) + 1)
                state = self._noted(state, *pins)
            self._pip("check")
            self.folder.note(state.model_copy(update={"lock": self.folder.lock}))
        self.say(f"stack {self.stack}: ready in {time.monotonic() - started:.0f} s")

    def _make_folder(self) -> None:
        try:
            self.folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            seen = f"{error.strerror}: {self.folder.path}"
            remedy = f"Set {STACKS_VARIABLE} to a folder you can write to."
            raise self._error(seen, remedy) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with exclusive_now(self.folder.path.parent / f"{self.stack}.lock") as free:
            if not free:
                raise self._error("another process is installing it", "Wait until it has ended.")
            yield

    def _announce(self) -> None:
        wants, path = self.folder.environment, self.folder.path
        self.say(
            f"stack {self.stack}: fetches up to {wants.download_gb:g} GB, takes "
            f"{wants.disk_gb:g} GB on disk in {path}; if it is interrupted, the next call continues"
        )
        files = (f.stat().st_size for f in path.rglob("*") if f.is_file() and not f.is_symlink())
        room = (shutil.disk_usage(path).free + sum(files)) / 1e9
        if room < wants.disk_gb:
            raise self._error(
                f"the disk has room for {room:.1f} GB only",
                f"Free space, or set {STACKS_VARIABLE} to a folder on another disk.",
            )

    def _begun(self) -> InstallState:
        """Return the state of an earlier installation, or create an empty environment."""
        if state := self.folder.reusable:
            self.say(f"continuing after {len(state.done)} packages")
            return state
        command = python_module("venv", "--clear", "--without-pip", str(self.folder.path))
        self._command(command, "creating the environment")
        state = InstallState(origin=self.folder.origin)
        self.folder.note(state)
        return state

    def _install_torch(self, state: InstallState) -> InstallState:
        """Install CPU builds of torch and its companions, if the stack names any."""
        builds = [p for p in self.folder.environment.torch_builds if p not in state.done]
        source = self._torch_source(builds) if builds else None
        if source is None:
            return state
        self.say(f"{', '.join(builds)} from {source[-1]}")
        self._pip_install(*source, *builds)
        return self._noted(state, *builds)

    def _torch_source(self, builds: list[str]) -> tuple[str, ...] | None:
        """Return pip's options for the first source with all the builds, else None."""
        wheels, index = (self.environ.get(name) for name in (WHEELS_VARIABLE, INDEX_VARIABLE))
        if wheels:
            source = ("--no-index", "--find-links", wheels)
            if self._can("install", "--dry-run", "--no-deps", *source, *builds):
                return source
        return ("--index-url", index) if index and _answers(index) else None

    def _groups(self, state: InstallState) -> Iterator[Sequence[str]]:
        """Yield the pins that are missing, each group once those before it are installed: torch
        comes before the packages that only its CUDA build needs."""
        missing = [pin for pin in self.folder.pins if pin not in state.done]
        builds = [pin for pin in missing if pin in self.folder.environment.torch_builds]
        yield from ([build] for build in builds)
        is_for_cuda = _torch_is_for_cuda(self.folder.path)
        others = [
            pin
            for pin in missing
            if pin not in builds and (is_for_cuda or not pin.startswith(_CUDA_ONLY))
        ]
        for start in range(0, len(others), self.at_once):
            yield others[start : start + self.at_once]

    def _install(self, pins: Sequence[str], number: int) -> None:
        self.say(f"[{number}/{len(self.folder.pins)}] {', '.join(pins)}")
        self._pip_install(*pins)

    def _noted(self, state: InstallState, *pins: str) -> InstallState:
        state = state.model_copy(update={"done": (*state.done, *pins)})
        self.folder.note(state)
        return state

    def _pip_install(self, *arguments: str) -> None:
        # Files of a killed installation are overwritten, not trusted. Python compiles modules when
        # they are first imported; most never are.
        self._pip("install", "--no-deps", "--ignore-installed", "--no-compile", *arguments)

    def _pip(self, *arguments: str) -> None:
        self._command(self._pip_command(*arguments), f"pip {' '.join(arguments)}")

    def _can(self, *arguments: str) -> bool:
        command = self._pip_command(*arguments)
        environ = inherited_to_fetch(os.environ)
        done = subprocess.run(command, env=environ, capture_output=True, check=False)
        return done.returncode == 0

    def _pip_command(self, *arguments: str) -> tuple[str, ...]:
        whose = ("--python", str(self.folder.python))
        options = ("--no-input", "--disable-pip-version-check")
        return python_module("pip", *whose, *options, *arguments)

    def _command(self, command: tuple[str, ...], what: str) -> None:
        environ = inherited_to_fetch(os.environ)
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["it gave no reason"]
            raise self._error(
                f"{what}: {said[-1]}",
                "Correct that and run it again: it continues where it stopped.",
            )

    def _error(self, seen: str, remedy: str) -> StackNotInstalled:
        return StackNotInstalled(f"install stack {self.stack}", seen, remedy)


def _torch_is_for_cuda(environment: Path) -> bool:
    """Return whether the torch in an environment requires CUDA's libraries."""
    folders = [str(path) for path in environment.glob("lib/python*/site-packages")]
    torch = (d for d in distributions(path=folders) if d.name == "torch")
    return any(need.startswith("nvidia-") for d in torch for need in d.requires or ())


def _answers(index: str) -> bool:
    try:
        with urllib.request.urlopen(f"{index.rstrip('/')}/torch/", timeout=INDEX_ANSWERS_S):
            return True
    except (OSError, ValueError):
        return False
