"""Installation of a stack's Python environment, a few packages at a time: it can be resumed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path

from agents.stacks.environments import STACKS_VARIABLE, STATE, EnvironmentFolder, InstallState
from agents.stacks.package_index import INDEX_VARIABLE, answers, without_credentials
from controller.contracts.errors import UserError
from controller.platform.inherited import inherited_to_fetch
from controller.platform.locks import exclusive_now
from controller.platform.programs import python_module

WHEELS_VARIABLE = "BENCHFARM_TORCH_WHEELS"
AT_ONCE = 10
"""Packages that one call of pip installs: it takes seconds to start. An installation that was
interrupted continues after its last call."""
_CUDA_ONLY = ("nvidia-", "triton==")
"""Prefixes of pins that only a CUDA build of torch needs."""


class StackNotInstalled(UserError):
    """A stack's environment could not be installed."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Where pip takes packages from."""

    address: str
    """As it is shown."""
    options: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables for pip; every user of the host can read its options."""


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
            self.folder.share()
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
        lock = self.folder.path.parent / f"{self.stack}.lock"
        with ExitStack() as held:
            try:
                free = held.enter_context(exclusive_now(lock))
            except OSError as error:
                seen = f"{error.strerror}: {lock}"
                remedy = f"Be its owner, or set {STACKS_VARIABLE} to a folder of your own."
                raise self._error(seen, remedy) from error
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
        self._clear()
        command = python_module("venv", "--without-pip", str(self.folder.path))
        self._command(command, "creating the environment")
        state = InstallState(origin=self.folder.origin)
        self.folder.note(state)
        return state

    def _clear(self) -> None:
        """Delete what is in the folder, which must be an environment's, and mark it as one."""
        path = self.folder.path
        try:
            entries = {entry.name: entry for entry in path.iterdir()}
            if entries and not entries.keys() & {STATE, "pyvenv.cfg"}:
                remedy = f"Move them away, or set {STACKS_VARIABLE} to another folder."
                raise self._error(f"{path} holds other files", remedy)
            self.folder.note(InstallState(origin=""))  # if this is interrupted, it is cleared again
            for name, entry in entries.items():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                elif name != STATE:
                    entry.unlink()
        except OSError as error:
            seen = f"{error.strerror}: {error.filename}"
            raise self._error(seen, "Make the folder yours, or delete it.") from error

    def _install_torch(self, state: InstallState) -> InstallState:
        """Install CPU builds of torch and its companions, if the stack names any."""
        builds = [p for p in self.folder.environment.torch_builds if p not in state.done]
        source = self._torch_source(builds) if builds else None
        if source is None:
            return state
        self.say(f"{', '.join(builds)} from {source.address}")
        self._pip_install(*source.options, *builds, environ=source.environ)
        return self._noted(state, *builds)

    def _torch_source(self, builds: list[str]) -> _Source | None:
        """Return the first source with all the builds, else None."""
        wheels, index = (self.environ.get(name) for name in (WHEELS_VARIABLE, INDEX_VARIABLE))
        if wheels:
            source = _Source(wheels, options=("--no-index", "--find-links", wheels))
            if self._can("install", "--dry-run", "--no-deps", *source.options, *builds):
                return source
        if index and answers(index):
            return _Source(without_credentials(index), environ={"PIP_INDEX_URL": index})
        return None

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

    def _pip_install(self, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        # Files of a killed installation are overwritten, not trusted. Python compiles modules when
        # they are first imported; most never are.
        options = ("--no-deps", "--ignore-installed", "--no-compile")
        self._pip("install", *options, *arguments, environ=environ)

    def _pip(self, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        self._command(self._pip_command(*arguments), f"pip {' '.join(arguments)}", environ)

    def _can(self, *arguments: str) -> bool:
        command = self._pip_command(*arguments)
        environ = inherited_to_fetch(os.environ)
        done = subprocess.run(command, env=environ, capture_output=True, check=False)
        return done.returncode == 0

    def _pip_command(self, *arguments: str) -> tuple[str, ...]:
        whose = ("--python", str(self.folder.python))
        options = ("--no-input", "--disable-pip-version-check")
        return python_module("pip", *whose, *options, *arguments)

    def _command(
        self, command: tuple[str, ...], what: str, environ: Mapping[str, str] | None = None
    ) -> None:
        full = inherited_to_fetch(os.environ) | dict(environ or {})
        done = subprocess.run(command, env=full, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["it gave no reason"]
            raise self._error(
                without_credentials(f"{what}: {said[-1]}"),
                "Correct that and run it again: it continues where it stopped.",
            )

    def _error(self, seen: str, remedy: str) -> StackNotInstalled:
        return StackNotInstalled(f"install stack {self.stack}", seen, remedy)


def _torch_is_for_cuda(environment: Path) -> bool:
    """Return whether the torch in an environment requires CUDA's libraries."""
    folders = [str(path) for path in environment.glob("lib/python*/site-packages")]
    torch = (d for d in distributions(path=folders) if d.name == "torch")
    return any(need.startswith("nvidia-") for d in torch for need in d.requires or ())
