"""What `up` tells the controller, and where it is: light enough for the command line to import."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from controller.contracts.quota import Quota

URL_VARIABLE: Final = "BENCHFARM_URL"
"""Where the controller listens, for who is not on its host: the end of an ssh tunnel, say."""
QUARANTINE_AFTER = 3
"""So many failures in a row of a device's own blame take it out of the fleet."""
RECONNECT_TIMEOUT_S = 10
"""For so long a Ray node lives on without its head, unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """What `up` was told; kept by Ray for every restart of the actor."""

    home: str
    metrics_address: str
    """IP address of this host on which Prometheus finds its metrics."""
    api_port: int
    """0 for a free one."""
    quarantine_after: int
    """As QUARANTINE_AFTER."""
    quota: Quota = field(default_factory=Quota)
    """Of each user but the administrator."""
    metrics_port: int = 0
    """Which the farm had before, if it is still free; 0 for any."""
