"""Injects a fault at one moment of a run on a phone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import psutil

from agents.remotes.remote import NO_ENVIRONMENT, Completed, Ended, Pushed, Remote
from agents.remotes.tree import Tree
from tests.support.processes import is_dead

HELD = ("sh", "-c", 'echo begun; sleep 1000 & "$@"; wait', "sh")
"""Runs the runner, and goes on."""
GIVEN_UP_S = 2.0
"""The deadline of a program that will hang."""


@dataclass
class FaultInjection:
    """A fault in the first attempt of a run, and what is seen of it."""

    moment: str
    """`push`, `start`, `run` or `pull`."""
    hangs: bool
    inject: Callable[[], Awaitable[None]] = field(init=False)
    attempts: int = 0
    left: Mapping[psutil.Process, str] = field(default_factory=dict)
    """The phone's processes when the first attempt had failed, and their command lines."""
    outlived: list[str] = field(default_factory=list)
    """Those of them that lived when the next attempt began."""

    def through(self, remote: Remote) -> Remote:
        """Stand between a run and its phone, once."""
        self.attempts += 1
        if self.attempts > 1:
            self.outlived += [line for process, line in self.left.items() if not is_dead(process)]
            return remote
        return _InjectedRemote(remote, self)

    async def at(self, moment: str) -> None:
        """Inject the fault, if this is the moment."""
        if moment == self.moment:
            await self.inject()

    def deadline_s(self, moment: str, deadline_s: float) -> float:
        """Return when a program is given up."""
        return GIVEN_UP_S if self.hangs and self.moment == moment else deadline_s


@dataclass(frozen=True)
class _InjectedRemote:
    """A Remote that tells how far a run is."""

    remote: Remote
    injection: FaultInjection

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        return await self.remote.run(argv, deadline_s, stdin)

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        await self.injection.at("start")
        if self.injection.moment != "run":
            deadline_s = self.injection.deadline_s("start", deadline_s)
            return await self.remote.stream(argv, deadline_s, on_line, environment)
        begun = asyncio.Event()

        def take(line: bytes) -> None:
            if line == b"begun":
                begun.set()
            else:
                on_line(line)

        deadline_s = self.injection.deadline_s("run", deadline_s)
        stream = asyncio.create_task(self.remote.stream((*HELD, *argv), deadline_s, take))
        await begun.wait()
        await self.injection.at("run")
        return await stream

    async def push_tree(self, tree: Tree) -> Pushed:
        await self.injection.at("push")
        return await self.remote.push_tree(tree)

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        await self.injection.at("pull")
        await self.remote.pull(source, target)

    async def clean(self) -> int:
        return await self.remote.clean()
