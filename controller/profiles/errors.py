"""Errors in the input files of profiles."""

from __future__ import annotations

from controller.contracts.errors import UserError


class ProfileUnreadable(UserError):
    """A file that is neither a oneDNN verbose log nor a chrome trace of torch.profiler."""
