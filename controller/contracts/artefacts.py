"""Artefacts of attempts on their way to the head, and as they are listed there.

A file is sent as parts of frames: docs/artifacts.md has the protocol, controller.platform.frames
the form of a frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from controller.contracts.base import Contract
from controller.contracts.device import Id
from controller.contracts.wire import AttemptRef

NAME_BYTES: Final = 512
"""Of a name in UTF-8."""
PIECE_BYTES: Final = 200
"""Of each piece of a name between slashes, with room for an ending."""
MOST_FILES: Final = 10_000
"""Of an attempt."""
LARGEST_FILE: Final = 2**40


def fault_of_name(name: str) -> str:
    """Return why a name can't be an artefact's, else "".

    It is a relative path below the attempt's folder: it stays below any folder it is joined to, and
    has nothing that a terminal would not show.
    """
    if not name.isprintable() or "\\" in name:
        return "it has characters that cannot be shown"
    if len(name.encode()) > NAME_BYTES:
        return f"it is longer than {NAME_BYTES} bytes"
    for piece in name.split("/"):
        if piece in ("", ".", ".."):
            return "it is no path below a folder"
        if len(piece.encode()) > PIECE_BYTES:
            return f"a part of it is longer than {PIECE_BYTES} bytes"
    return ""


def _good_name(name: str) -> str:
    if why := fault_of_name(name):
        raise ValueError(why)
    return name


ArtefactName = Annotated[str, AfterValidator(_good_name)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Size = Annotated[int, Field(ge=0, le=LARGEST_FILE)]
"""In bytes."""


class ArtefactFile(Contract):
    """A file of an attempt, as its agent offers it to the head."""

    ref: AttemptRef
    agent_id: Id
    name: ArtefactName
    sha256: Sha256
    size: Size


class ArtefactPart(Contract):
    """What is sent beside some frames: of which file they are, and from which byte on."""

    file: ArtefactFile
    offset: Size


class ArtefactReceipt(Contract):
    """What the head has of a file after a request; the agent goes on from there.

    It is derived from what is stored, so a lost, doubled or late part does no harm.
    """

    held: Size = 0
    """Bytes from the beginning."""
    whole: bool = False
    """Whether all of it has come, from whichever agent."""
    refused: str = ""
    """Why the head doesn't take this file."""
    damaged: bool = False
    """Whether it is refused because of what has come of it, which is thrown away; it may be sent
    anew."""
    later_s: float = Field(default=0.0, ge=0.0, le=3600.0)
    """Seconds after which to ask again, since a run measures on the head's host."""


class ArtefactPlace(StrEnum):
    """Where the content of an artefact is."""

    HEAD = "head"
    AGENT = "agent"
    """Announced by its agent, and not here yet."""
    EXPIRED = "expired"
    """It was here, and retention has removed it."""


class ArtefactRecord(Contract):
    """An artefact of an attempt, as it is listed."""

    run_id: str
    attempt: int = Field(ge=1)
    name: ArtefactName
    size: Size
    sha256: Sha256
    agent_id: Id
    where: ArtefactPlace

    @property
    def path(self) -> str:
        """Its name among all of its run: `1/output.log`."""
        return f"{self.attempt}/{self.name}"


@dataclass(frozen=True, slots=True)
class KeptContent:
    """A content of the head's artefact store, where retention decides about it."""

    sha256: str
    kept_bytes: int
    """On the head's disk."""
    used_at: float
    """When the newest artefact with it was announced, in seconds since the epoch."""
    pinned: bool
    """Whether a pinned sweep has it."""
