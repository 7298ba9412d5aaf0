"""Where a user's caches are: what can be made again, shared by all farms of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from controller.contracts.errors import UserError


def user_cache(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of one cache, which may not exist (XDG Base Directory Specification).

    Never below /tmp, where another user could have put a folder of this name first. Raises
    UserError for a user without a home.
    """
    base = environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(base) if Path(base).is_absolute() else Path("~/.cache").expanduser()
    except RuntimeError as error:
        seen, remedy = "the user has no home folder", "Set XDG_CACHE_HOME to a folder of your own."
        raise UserError("find a folder for caches", seen, remedy) from error
    return root / "benchfarm" / name
