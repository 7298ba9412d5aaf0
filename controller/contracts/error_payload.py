"""A UserError as JSON, for places where exceptions can't go: a process, HTTP, a file."""

from __future__ import annotations

from typing import Final, Self

from controller.contracts import errors
from controller.contracts.base import Contract
from controller.contracts.errors import UserError

USER_ERROR: Final = 2
"""Exit status of a helper that has replied with an ErrorPayload."""
MAX_CHARACTERS = 4000

_KINDS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, UserError)
}


class ErrorPayload(Contract):
    """A UserError as JSON."""

    kind: str
    """Name of the error's class."""
    tried: str
    seen: str
    remedy: str

    @classmethod
    def of(cls, error: UserError) -> Self:
        """Return the payload of an error."""
        kind = type(error).__name__
        return cls(
            kind=kind,
            tried=_short(error.tried),
            seen=_short(error.seen),
            remedy=_short(error.remedy),
        )

    def error(self) -> UserError:
        """Return the error; a plain UserError if only one package defines its class."""
        words = map(_short, (self.tried, self.seen, self.remedy))
        return _KINDS.get(self.kind, UserError)(*words)


def _short(text: str) -> str:
    """Return a text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[:MAX_CHARACTERS]}…"
