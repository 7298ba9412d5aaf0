"""Where a user's caches are: what can be made again, shared by all farms of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def user_cache(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of one cache, which may not exist (XDG Base Directory Specification).

    Never below /tmp, where another user could have put a folder of this name first.
    """
    base = environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path("~/.cache").expanduser()
    return root / "benchfarm" / name
