"""A UserError as it travels where exceptions can't: in JSON, over HTTP or in a file."""

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
    """What a UserError says."""

    kind: str
    """The name of its class."""
    tried: str
    seen: str
    remedy: str

    @classmethod
    def of(cls, error: UserError) -> Self:
        """Return an error's words."""
        kind = type(error).__name__
        return cls(
            kind=kind,
            tried=_short(error.tried),
            seen=_short(error.seen),
            remedy=_short(error.remedy),
        )

    def error(self) -> UserError:
        """Return the error again; a plain UserError if its class is of one package only."""
        words = map(_short, (self.tried, self.seen, self.remedy))
        return _KINDS.get(self.kind, UserError)(*words)


def _short(text: str) -> str:
    """Return words on one line, and no more of them than a person reads."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[:MAX_CHARACTERS]}…"
