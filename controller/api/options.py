"""Where the API listens, and its limits."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from controller.api.front import Front
from controller.api.rates import Rate
from controller.metrics.web_server import HEAD_TIMEOUT_S, SEND_S

OF_TOKENS: Final = Rate(per_s=20.0, burst=100)
"""Requests of one user."""
OF_STRANGERS: Final = Rate(per_s=1.0, burst=20)
"""Refused tokens from one address."""
END_S: Final = 5.0
"""For so long, requests under way are waited for when the server ends."""
STREAMS: Final = 24
"""Streams of events at once; the controller sends more than these to one user, such as the API."""
STREAMS_OF_USER: Final = 8
MAX_BODY_BYTES: Final = 2**18
BODY_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Where the API listens, and its limits."""

    host: str
    port: int
    """0 for any free port."""
    tls: ssl.SSLContext | None = None
    rate: Rate = OF_TOKENS
    strangers: Rate = OF_STRANGERS
    max_body_bytes: int = MAX_BODY_BYTES
    body_timeout_s: float = BODY_TIMEOUT_S
    head_timeout_s: float = HEAD_TIMEOUT_S
    end_s: float = END_S
    front: Front | None = None
    """Pages that are served, too, beside the API."""
    send_s: float = SEND_S
    streams: int = STREAMS
    streams_of_user: int = STREAMS_OF_USER
    clock: Callable[[], float] = time.monotonic
    """Seconds; never steps back."""
