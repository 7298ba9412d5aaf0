"""What the API's own log has: nothing of each request."""

from __future__ import annotations

import subprocess
import sys

from tests.support.waiting import PATIENCE_S

ASKED = """
import logging
import httpx
from controller.platform.terminal import log_visibly

log_visibly()
answering = httpx.MockTransport(lambda _: httpx.Response(200))
with httpx.Client(transport=answering) as client:
    client.get("http://farm.example/v1/fleet")
logging.getLogger("controller.api").info("said")
logging.getLogger("httpx").warning("warned")
"""
"""Asks the controller as the API does, and logs."""


def test_requests_to_the_controller_are_not_logged() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", ASKED], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    ends = [line.split()[2:] for line in done.stderr.splitlines()]
    assert ends == [["INFO", "said"], ["WARNING", "warned"]]
