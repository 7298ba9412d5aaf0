"""Tags and notes of sweeps: words of people, which change nothing that was measured."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator, Field

from controller.contracts.base import Contract, Timestamp, utc_minute
from controller.contracts.device import LABEL

MAX_TAGS: Final = 32
"""Tags that a sweep may have."""
MAX_NOTES: Final = 100
"""Notes that a sweep may have."""
NOTE_CHARACTERS: Final = 1000
Tag = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
NoteText = Annotated[str, Field(min_length=1, max_length=NOTE_CHARACTERS, pattern=LABEL)]


def _seconds(value: object) -> object:
    """Return the seconds of a time that was written as JSON."""
    return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value


class Note(Contract):
    """A note on a sweep."""

    number: int = Field(ge=1)
    """From 1 within the sweep; the number of a removed note is not given again."""
    text: NoteText
    who: str
    """The user who wrote it."""
    at: Annotated[Timestamp, BeforeValidator(_seconds)]

    @property
    def line(self) -> str:
        """The note with who wrote it and when."""
        return f"{self.text} ({self.who}, {utc_minute(self.at)[:16]} UTC)"


class SweepAnnotations(Contract):
    """The tags and notes of a sweep."""

    sweep_id: str
    tags: tuple[Tag, ...] = Field(default=(), max_length=MAX_TAGS)
    """In alphabetical order."""
    notes: tuple[Note, ...] = Field(default=(), max_length=MAX_NOTES)
    """Oldest first."""
    noted: int = Field(default=0, ge=0)
    """How many notes it has ever had."""


class AnnotationChange(Contract):
    """A request about a sweep's tags or notes."""

    PATH: ClassVar[str]
    """The end of its route, `/v1/sweeps/{id}/PATH`."""


class TagRequest(AnnotationChange):
    """Tags to remove, and then to add."""

    PATH = "tags"
    add: tuple[Tag, ...] = Field(default=(), max_length=MAX_TAGS)
    remove: tuple[Tag, ...] = Field(default=(), max_length=MAX_TAGS)


class NoteRequest(AnnotationChange):
    """A note to add."""

    PATH = "notes"
    text: NoteText


class NoteRemoval(AnnotationChange):
    """A note to remove."""

    PATH = "notes/remove"
    number: int = Field(ge=1, le=2**31)
