"""What can be wrong with a file that a profile is to be read from."""

from __future__ import annotations

from controller.contracts.errors import UserError


class ProfileUnreadable(UserError):
    """A file that is neither a oneDNN verbose log nor a chrome trace of torch.profiler."""
