"""What each route that writes does: the controller is asked, in the name of the caller.

The controller checks the token itself, so quotas, owners and its own refusals hold as for the
command line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from controller.api.identity import Caller
from controller.api.reads import Ids, Reading, record_of
from controller.contracts.administration import Count, SubmitRequest
from controller.contracts.annotations import AnnotationChange, SweepAnnotations
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
    return Count(runs=_client(farm, caller).cancel(_exact(farm, ids)))


def resume(farm: Reading, caller: Caller, _: Contract | None, ids: Ids) -> Count:
    """Queue runs of the sweep with exactly this id again; raises as `cancel`."""
    return Count(runs=_client(farm, caller).resume(_exact(farm, ids)))


def annotate(
    farm: Reading, caller: Caller, body: AnnotationChange | None, ids: Ids
) -> SweepAnnotations:
    """Change the tags or notes of the sweep with exactly this id; raises as `cancel`."""
    assert body is not None
    return _client(farm, caller).annotate(_exact(farm, ids), body)


def administer(
    method: str, path: str, answer: type[Contract]
) -> Callable[[Reading, Caller, Contract | None, Ids], Contract]:
    """Return what passes a request on to the administrator's route with the same path.

    As there, an id may be a name or the beginning of one.
    """

    def work(farm: Reading, caller: Caller, body: Contract | None, ids: Ids) -> Contract:
        named = {name: quote(id_, safe="") for name, id_ in ids.items()}
        route = path.lstrip("/").format_map(named)
        return _client(farm, caller).administer(answer, route, None if method == "GET" else body)

    return work


def _exact(farm: Reading, ids: Ids) -> str:
    # A name or a beginning would do for the controller.
    return record_of(farm.store, ids["sweep_id"]).sweep_id


def _client(farm: Reading, caller: Caller) -> FarmClient:
    return FarmClient(farm.home, {TOKEN_VARIABLE: caller.token}, AT_ONCE)
