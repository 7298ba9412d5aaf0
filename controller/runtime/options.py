"""Options of the controller; imports so little that the command line can import it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from controller.contracts.quota import Quota
from controller.contracts.retention import Retention

URL_VARIABLE: Final = "BENCHFARM_URL"
"""Variable with the controller's URL for users elsewhere, such as the end of an ssh tunnel."""
CONTEXT_VARIABLE: Final = "BENCHFARM_CONTEXT"
"""Variable with the name of a context of `benchfarm login`, whose farm is meant."""
QUARANTINE_AFTER = 3
"""Failures in a row blamed on a device that put it in quarantine."""
RECONNECT_TIMEOUT_S = 10
"""Default time a Ray node lives on without its head."""


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """The controller's options from `up`; Ray keeps them for restarts of the actor."""

    home: str
    metrics_address: str
    """IP address of this host where Prometheus finds its metrics."""
    api_port: int
    """0 for a free port."""
    quarantine_after: int
    """As QUARANTINE_AFTER."""
    quota: Quota = field(default_factory=Quota)
    """Limits of each user but the administrator."""
    metrics_port: int = 0
    """The farm's former port, used if it is still free; 0 for any."""
    retention: Retention = field(default_factory=Retention)
    """How long artefacts are kept."""
