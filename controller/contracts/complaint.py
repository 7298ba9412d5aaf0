"""A UserError as it travels where exceptions can't: in JSON, over HTTP or in a file."""

from __future__ import annotations

from typing import Self

from controller.contracts import errors
from controller.contracts.base import Contract
from controller.contracts.errors import UserError

_KINDS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, UserError)
}


class Complaint(Contract):
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
        return cls(kind=kind, tried=error.tried, seen=error.seen, remedy=error.remedy)

    def error(self) -> UserError:
        """Return the error again; a plain UserError if its class is of one package only."""
        return _KINDS.get(self.kind, UserError)(self.tried, self.seen, self.remedy)
