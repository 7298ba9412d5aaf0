"""The client of a controller elsewhere, over the API of its farm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from controller.api.answers import SweepDetail
from controller.api.connection import Ask, Connection
from controller.api.contexts import FarmContext
from controller.contracts.administration import ADMINISTRATION, SweepStatus
from controller.contracts.wire import RunEvent
from controller.runtime.client import TIMINGS, FarmClient, Timings
from controller.runtime.home import Home

OWN: Final = "/v1"
"""Prefix of the controller's own routes."""
CANCEL: Final = "/cancel"
MAX_EVENT_BYTES: Final = 2**23


class ApiFarmClient(FarmClient):
    """Asks a controller as FarmClient does on its host; what it can't reach is said at once."""

    def __init__(self, home: Home, context: FarmContext, timings: Timings = TIMINGS) -> None:
        super().__init__(home, {}, timings)
        self._connection = Connection(context, quiet_s=timings.quiet_s)
        self._url = context.url

    @property
    def is_elsewhere(self) -> bool:
        """Whether the controller is not this home's: it is not."""
        return True

    def sweep_status(self, sweep_id: str) -> SweepStatus:
        """Return the status of the sweep with exactly this id, without what its runs wait for."""
        words = self._connection.words
        found = self._connection.run(
            words.one(SweepDetail, Ask("GET", f"/sweeps/{quote(sweep_id, safe='')}"))
        )
        tally = found.tally
        return SweepStatus(
            sweep_id=found.record.sweep_id,
            user=found.record.user,
            runs={state.value: runs for state, runs in tally.runs.items()},
            all_met_rules=tally.met_rules == sum(tally.runs.values()) + tally.lost,
            tags=found.tags,
            notes=found.notes,
        )

    @contextmanager
    def beats(self, sweep_id: str) -> Iterator[Iterator[RunEvent | None]]:
        """See FarmClient.beats."""
        asked = Ask("GET", f"{_path(sweep_id)}/events")
        with self._connection.stream(asked, endless=True) as response:
            yield self._events_of(response)

    def _events_of(self, response: httpx.Response) -> Iterator[RunEvent | None]:
        begun = b""
        try:
            for chunk in response.iter_raw():
                *events, begun = (begun + chunk).split(b"\n\n")
                yield from map(_event, events)
                if len(begun) > MAX_EVENT_BYTES:
                    raise self._connection.words.stranger("its answer is none of this release")
        except httpx.TransportError:
            return
        except ValidationError as error:
            seen = "its answer is not one of this release"
            raise self._connection.words.stranger(seen) from error

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        ask = asked_for(method, path, body)
        return httpx.Response(httpx.codes.OK, content=self._connection.fetch(ask))

    @property
    def _where(self) -> str:
        return f"at {self._url}"


def asked_for(method: str, path: str, body: dict[str, Any] | None) -> Ask:
    """Return the request to the API for one to the controller's own interface."""
    if path.startswith(ADMINISTRATION):
        return Ask(method, f"/{path.removeprefix(ADMINISTRATION)}", body=body)
    if path.endswith(CANCEL):
        return Ask("DELETE", path.removeprefix(OWN).removesuffix(CANCEL))
    return Ask(method, path.removeprefix(OWN), body=body or None)


def _event(text: bytes) -> RunEvent | None:
    data = [line.removeprefix(b"data: ") for line in text.split(b"\n") if line[:5] == b"data:"]
    return RunEvent.model_validate_json(data[0]) if data else None


def _path(sweep_id: str) -> str:
    return f"/sweeps/{quote(sweep_id, safe='')}"
