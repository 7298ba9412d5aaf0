"""What each route that writes does: the controller is asked, in the name of the caller.

The controller checks the token itself, so quotas, owners and its own refusals hold as for the
command line.
"""

from __future__ import annotations

from typing import Final

from controller.api.identity import Caller
from controller.api.reads import Ids, Reading, record_of
from controller.contracts.administration import Count, SubmitRequest
from controller.contracts.base import Contract
from controller.contracts.wire import Submission
from controller.runtime.client import TOKEN_VARIABLE, FarmClient, Timings

AT_ONCE: Final = Timings(restart_s=0.0)
"""A controller that is away is reported at once: the caller may repeat the request."""


def submit(farm: Reading, caller: Caller, body: SubmitRequest | None, _: Ids) -> Submission:
    """Submit a sweep; raises the controller's UserError."""
    assert body is not None
    return _client(farm, caller).submit(body.sweep, again=body.again)


def cancel(farm: Reading, caller: Caller, _: Contract | None, ids: Ids) -> Count:
    """Cancel the sweep with exactly this id; raises NotFound, the controller's UserError."""
    record = record_of(farm.store, ids["sweep_id"])  # a name or a beginning would do there
    return Count(runs=_client(farm, caller).cancel(record.sweep_id))


def _client(farm: Reading, caller: Caller) -> FarmClient:
    return FarmClient(farm.home, {TOKEN_VARIABLE: caller.token}, AT_ONCE)
