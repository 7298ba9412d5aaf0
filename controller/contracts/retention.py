"""Where the head keeps artefacts, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FOLDER: Final = "artefacts"
"""Name of the head's artefact store, in its BENCHFARM_HOME."""
PINNED: Final = "pinned"
"""Tag of sweeps whose artefacts are kept, however old they are."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long the head keeps artefacts."""

    days: int = 180
    most_bytes: int = 200 * 10**9
    """On the head's disk, as compressed."""
