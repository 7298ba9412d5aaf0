"""Errors of weights; each names the file."""

from __future__ import annotations

from controller.contracts.errors import UserError


class WeightsUnusable(UserError):
    """A file that holds no weights, or weights of another model."""
