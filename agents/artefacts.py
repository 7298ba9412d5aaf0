"""Sends the artefacts of ended attempts to the head, while nothing is measured on this host.

The head's answers say what it has, so sending goes on there after whatever has interrupted it: a
run, a cut link, a restart of either side. docs/artifacts.md has the protocol.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from agents.artefact_files import Limits, State, files_of, opened
from agents.artefact_queue import ArtefactQueue
from agents.link import ControllerAway, ControllerLink
from agents.quiet import Quiet
from agents.sending import Sending, Step, next_step, sizes_of_part
from controller.contracts.artefacts import ArtefactFile, ArtefactPart, ArtefactReceipt
from controller.contracts.errors import AgentRevoked, StoreUnavailable, UnknownAttempt
from controller.contracts.wire import AttemptRef
from controller.platform.frames import packed

log = logging.getLogger(__name__)
Found = TypeVar("Found")
SLICE_BYTES: Final = 2**21
"""Of a file that is hashed: a slice takes a few milliseconds, then a run that has begun is seen."""
MOST_CHANGES: Final = 3
"""A file that has changed so often while it was sent is left out."""
MOST_DAMAGED: Final = 3
"""A file that has arrived damaged so often stays on this host: each time, all of it was sent."""
LEFT_OUT_SAID: Final = 5
"""Files that are left out and that the log names."""


@dataclass(frozen=True, slots=True)
class SendingPauses:
    """How long the sender waits, in seconds."""

    away_s: float = 2.0
    """Before it asks again a controller that is away, or whose disk is full."""
    look_s: float = 60.0
    """Before it tries again an attempt that it could not send."""
    settle_s: float = 1.0
    """See Quiet."""


@dataclass(frozen=True, slots=True)
class AgentRuns:
    """An agent's attempts on disk. folder: the agent's own."""

    agent_id: str
    folder: Path
    limits: Limits = field(default_factory=Limits)

    def of(self, ref: AttemptRef) -> Path:
        """Return the folder of an attempt."""
        return self.folder / "runs" / ref.run_id / str(ref.attempt)

    @property
    def queue(self) -> ArtefactQueue:
        """The attempts that are still to be sent."""
        return ArtefactQueue(self.folder / "unsent")


@dataclass(frozen=True, slots=True)
class Hashed:
    """A file as it was when it was hashed."""

    file: ArtefactFile
    state: State


class FileChanged(Exception):
    """A file that is no longer what was hashed."""


class ArtefactSender:
    """Sends attempts one after the other; `go_on` runs it."""

    def __init__(
        self, runs: AgentRuns, link: ControllerLink, pauses: SendingPauses = SendingPauses()
    ) -> None:
        self._runs = runs
        self._link = link
        self._pauses = pauses
        self._more = asyncio.Event()
        self._trouble = ""
        self._damaged: defaultdict[AttemptRef, Counter[str]] = defaultdict(Counter)
        """How often the files of attempts that are still to be sent have arrived damaged."""
        self.quiet = Quiet(pauses.settle_s)

    def put(self, ref: AttemptRef) -> None:
        """Have an ended attempt sent in due course; survives the agent."""
        try:
            self._runs.queue.put(ref)
        except OSError as error:
            log.error("artefacts of run %s stay on this host: %s", ref.run_id, error)
        self._more.set()

    async def go_on(self) -> None:
        """Send what is there and what comes, forever."""
        while True:
            self._more.clear()
            left = False
            for ref in self._runs.queue.pending():
                left |= not await self._send_attempt(ref)
            try:
                async with asyncio.timeout(self._pauses.look_s if left else None):
                    await self._more.wait()
            except TimeoutError:
                continue

    async def _send_attempt(self, ref: AttemptRef) -> bool:
        """Send the files of an attempt; return whether nothing more has to be sent of it."""
        try:
            if not await self._send_if_known(ref):
                return False
            self._runs.queue.drop(ref)
        except Exception:
            log.exception("artefacts of run %s could not be sent now", ref.run_id)
            return False
        self._damaged.pop(ref, None)
        return True

    async def _send_if_known(self, ref: AttemptRef) -> bool:
        """Send the files of an attempt that the head knows; return whether none is left."""
        try:
            return await self._send_files(ref)
        except UnknownAttempt as refusal:
            log.error("artefacts of run %s stay on this host: %s", ref.run_id, refusal)
            return True

    async def _send_files(self, ref: AttemptRef) -> bool:
        """Announce all files of an attempt, then send them; return whether none is left."""
        await self.quiet.wait()
        found = await asyncio.to_thread(files_of, self._runs.of(ref), self._runs.limits)
        for line in found.left_out[:LEFT_OUT_SAID]:
            log.warning("run %s keeps a file on this host: %s", ref.run_id, line)
        damaged = self._damaged[ref]
        names = [name for name in found.names if damaged[name] < MOST_DAMAGED]
        announced = {name: await self._announced(ref, name) for name in names}
        return all([await self._send_file(ref, name, announced[name]) for name in names])

    async def _announced(self, ref: AttemptRef, name: str) -> Hashed | None:
        """Hash a file and tell the head of it, so that it is listed before it has come."""
        try:
            known = await self._hashed(ref, name)
        except (OSError, FileChanged):  # `_send_file` says so
            return None
        await self._offered(known.file)
        return known

    async def _send_file(self, ref: AttemptRef, name: str, known: Hashed | None) -> bool:
        """Send a file; return whether the head has it, or will never take it."""
        for _ in range(MOST_CHANGES):
            try:
                known = known or await self._hashed(ref, name)
                step = await self._send_content(known)
                if step is Step.DAMAGED:
                    return self._is_given_up(ref, name)
                if step is not Step.REFUSED:
                    return step is Step.DONE
                again = await self._hashed(ref, name)
            except FileChanged:
                known = None
            except OSError as error:
                log.warning("%s of run %s stays on this host: %s", ascii(name), ref.run_id, error)
                return True
            else:
                if again.file == known.file:
                    return True
                known = again
        log.warning("%s of run %s changes while it is sent", ascii(name), ref.run_id)
        return False

    def _is_given_up(self, ref: AttemptRef, name: str) -> bool:
        """Count that a file has arrived damaged; return whether that was once too often."""
        self._damaged[ref][name] += 1
        if self._damaged[ref][name] < MOST_DAMAGED:
            return False
        said = "%s of run %s stays on this host: it has arrived damaged %d times"
        log.error(said, ascii(name), ref.run_id, MOST_DAMAGED)
        return True

    async def _hashed(self, ref: AttemptRef, name: str) -> Hashed:
        """Return a file as it is now; raises OSError, FileChanged."""
        whole = hashlib.sha256()
        with closing(opened(self._runs.of(ref), name)) as content:
            state = _state(content)
            while await self._quietly(_hash_slice, content, whole):
                pass
            if _state(content) != state:
                raise FileChanged
        file = ArtefactFile(
            ref=ref,
            agent_id=self._runs.agent_id,
            name=name,
            sha256=whole.hexdigest(),
            size=state.size,
        )
        return Hashed(file, state)

    async def _send_content(self, known: Hashed) -> Step:
        """Send what the head lacks of a file; return DONE, REFUSED, DAMAGED or STALLED.

        Raises OSError, FileChanged.
        """
        file, sending = known.file, Sending()
        with closing(opened(self._runs.of(file.ref), file.name)) as content:
            receipt = await self._offered(file)
            while True:
                sending, step = next_step(sending, receipt)
                if step is Step.WAIT:
                    await asyncio.sleep(receipt.later_s)
                    receipt = await self._offered(file)
                elif step is Step.SEND:
                    if _state(content) != known.state:
                        raise FileChanged
                    receipt = await self._sent(file, content, receipt.held)
                else:
                    _say(file, step, receipt)
                    return step

    async def _offered(self, file: ArtefactFile) -> ArtefactReceipt:
        """Offer a file until the head answers; raises UnknownAttempt."""
        while True:
            await self.quiet.wait()
            try:
                receipt = await self._link.offer_artefact(file)
            except (ControllerAway, StoreUnavailable, AgentRevoked) as trouble:
                await self._pause(trouble)
            else:
                self._trouble = ""
                return receipt

    async def _sent(self, file: ArtefactFile, content: BinaryIO, held: int) -> ArtefactReceipt:
        """Send the part that follows; if nobody answers, ask the head what it has."""
        sizes = sizes_of_part(held, file.size)
        frames = await self._quietly(_frames, content, held, sizes)
        await self.quiet.wait()
        try:
            return await self._link.add_artefact(ArtefactPart(file=file, offset=held), frames)
        except (ControllerAway, StoreUnavailable, AgentRevoked) as trouble:
            await self._pause(trouble)
            return await self._offered(file)

    async def _pause(self, trouble: Exception) -> None:
        if repr(trouble) != self._trouble:
            log.warning("artefacts are sent later: %r", trouble)
        self._trouble = repr(trouble)
        await asyncio.sleep(self._pauses.away_s)

    async def _quietly(self, work: Callable[..., Found], *given: object) -> Found:
        """Do a short piece of work in a thread, while nothing is measured."""
        await self.quiet.wait()
        return await asyncio.to_thread(work, *given)


def _say(file: ArtefactFile, step: Step, receipt: ArtefactReceipt) -> None:
    if step is not Step.DONE:
        why = receipt.refused or "parts of it do not arrive"
        log.warning("%s of run %s is not sent: %s", ascii(file.name), file.ref.run_id, why)


def _state(file: BinaryIO) -> State:
    return State.of(os.fstat(file.fileno()))


def _hash_slice(file: BinaryIO, whole: hashlib._Hash) -> bool:
    """Hash the next slice of a file; return whether there was one."""
    piece = file.read(SLICE_BYTES)
    whole.update(piece)
    return bool(piece)


def _frames(content: BinaryIO, start: int, sizes: Sequence[int]) -> list[bytes]:
    """Return the frames of a part; raises FileChanged if the file has become shorter."""
    frames = []
    for size in sizes:
        piece = os.pread(content.fileno(), size, start)
        if len(piece) != size:
            raise FileChanged
        frames.append(packed(piece))
        start += size
    return frames
