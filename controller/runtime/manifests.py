"""Whether a farm works with the manifests that are installed now."""

from __future__ import annotations

from collections.abc import Callable

from controller.contracts.catalog import manifests_digest
from controller.contracts.errors import FarmUnavailable, HomeUnusable
from controller.contracts.unreadable import UNREADABLE
from controller.runtime.home import Home

CHANGED = "manifests or plugins have changed since the farm came up"
REMEDY = "Run {}, so that it reads them; runs are kept."
"""To be filled with the commands that start the farm anew."""


def have_changed(home: Home, digest: Callable[[], str] = manifests_digest) -> bool:
    """Return whether manifests differ from those that a home's controller has read.

    False without a controller; True if one can't be read any more.
    """
    try:
        known = home.endpoint().manifests
    except FarmUnavailable:
        return False
    try:
        return bool(known) and known != digest()
    except (*UNREADABLE, HomeUnusable):
        return True
