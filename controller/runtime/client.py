"""The user's side of the controller's HTTP interface."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import httpx

from controller.contracts.complaint import Complaint
from controller.contracts.errors import FarmUnavailable
from controller.contracts.sweep import Sweep
from controller.contracts.wire import RunEvent, Submission
from controller.runtime.home import Home

RESTART_S = 60.0
"""How long a restarting controller is waited for."""
RETRY_S = 0.5


class FarmClient:
    """Speaks to the controller of a home; finds it anew when it has moved."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def submit(self, sweep: Sweep, *, again: bool = False) -> Submission:
        """Submit a sweep; raises UserError as the controller puts it. Safe to repeat."""
        body = {"sweep": sweep.model_dump(mode="json"), "again": again}
        return Submission.model_validate(self._post("/v1/sweeps", body, repeat=not again))

    def cancel(self, sweep_id: str) -> int:
        """Cancel a sweep; return how many runs that ended."""
        answer = self._post(f"/v1/sweeps/{quote(sweep_id, safe='')}/cancel", {}, repeat=True)
        return int(answer["cancelled"])

    @contextmanager
    def events(self, sweep_id: str) -> Iterator[Iterator[RunEvent]]:
        """Listen to a sweep; events that come after entering are not missed.

        The iterator ends if the controller goes away.
        """
        with (
            self._connect(read_timeout=None) as client,
            client.stream("GET", f"/v1/sweeps/{quote(sweep_id, safe='')}/events") as response,
        ):
            yield _events_of(response)

    def _post(self, path: str, body: dict[str, Any], *, repeat: bool) -> dict[str, Any]:
        give_up = time.monotonic() + RESTART_S
        while True:
            try:
                with self._connect(read_timeout=30.0) as client:
                    return _answer(client.post(path, json=body))
            except httpx.TransportError as error:
                if not repeat or time.monotonic() >= give_up:
                    raise FarmUnavailable(
                        f"calling the controller of {self._home.path}",
                        str(error) or type(error).__name__,
                        "see whether it is up: benchfarm agent list",
                    ) from error
                time.sleep(RETRY_S)

    def _connect(self, read_timeout: float | None) -> httpx.Client:
        endpoint = self._home.endpoint()
        token = self._home.api_token.read_text().strip()
        return httpx.Client(
            base_url=endpoint.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(10.0, read=read_timeout),
            trust_env=False,
        )


def _events_of(response: httpx.Response) -> Iterator[RunEvent]:
    try:
        for line in response.iter_lines():
            yield RunEvent.model_validate_json(line)
    except httpx.TransportError:
        return


def _answer(response: httpx.Response) -> dict[str, Any]:
    if response.status_code == httpx.codes.OK:
        answer: dict[str, Any] = response.json()
        return answer
    if response.status_code == httpx.codes.BAD_REQUEST:
        raise Complaint.model_validate_json(response.content).error()
    raise FarmUnavailable(
        "calling the controller",
        f"it answered with status {response.status_code}",
        "see its log: benchfarm up prints where it is",
    )
