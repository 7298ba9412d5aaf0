"""The table of routes that write."""

from __future__ import annotations

from typing import Any, Final

from controller.api import writes
from controller.api.route_kinds import WriteRoute
from controller.contracts.administration import (
    BookRequest,
    ChangedDevice,
    Count,
    LabelRequest,
    NewBooking,
    NewToken,
    NewTokenRequest,
    Reason,
    ReleaseRequest,
    RenameRequest,
    SubmitRequest,
    TokenList,
    TokenRequest,
)
from controller.contracts.annotations import (
    NoteRemoval,
    NoteRequest,
    SweepAnnotations,
    TagRequest,
)
from controller.contracts.base import Contract
from controller.contracts.draining import AgentDrain, ChangedDrain
from controller.contracts.records import Scope
from controller.contracts.wire import Submission

SWEEP: Final = "/sweeps/{sweep_id}"


def _of_administrator(
    method: str, path: str, name: str, body: type[Contract] | None, answer: type[Contract]
) -> WriteRoute[Any]:
    """Return the route that passes a request on to the controller's administrator's route."""
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in name)
    work = writes.administer(method, path, answer)
    summary = f"{words.capitalize()}; for administrators."
    return WriteRoute(method, path, name, summary, body, answer, work, Scope.ADMINISTRATOR)


def _of_device(verb: str, body: type[Contract], answer: type[Contract]) -> WriteRoute[Any]:
    path = f"/devices/{{device_id}}/{verb}"
    return _of_administrator("POST", path, f"{verb}Device", body, answer)


def _of_agent(
    method: str, verb: str, name: str, body: type[Contract] | None, answer: type[Contract]
) -> WriteRoute[Any]:
    return _of_administrator(method, f"/agents/{{agent_id}}/{verb}", name, body, answer)


WRITES: Final[tuple[WriteRoute[Any], ...]] = (
    WriteRoute(
        *("POST", "/sweeps", "submitSweep", "Submit a sweep; the same one again adds nothing."),
        *(SubmitRequest, Submission, writes.submit),
    ),
    WriteRoute(
        *("DELETE", SWEEP, "cancelSweep", "Cancel a sweep's open runs."),
        *(None, Count, writes.cancel),
    ),
    WriteRoute(
        *("POST", f"{SWEEP}/resume", "resumeSweep", "Queue failed and cancelled runs again."),
        *(None, Count, writes.resume),
    ),
    WriteRoute(
        *("POST", f"{SWEEP}/{TagRequest.PATH}", "tagSweep", "Add or remove tags of a sweep."),
        *(TagRequest, SweepAnnotations, writes.annotate),
    ),
    WriteRoute(
        *("POST", f"{SWEEP}/{NoteRequest.PATH}", "noteSweep", "Add a note to a sweep."),
        *(NoteRequest, SweepAnnotations, writes.annotate),
    ),
    WriteRoute(
        *("POST", f"{SWEEP}/{NoteRemoval.PATH}", "removeNote", "Remove a note of a sweep."),
        *(NoteRemoval, SweepAnnotations, writes.annotate),
    ),
    _of_device("quarantine", Reason, ChangedDevice),
    _of_device("release", ReleaseRequest, ChangedDevice),
    _of_device("probe", Reason, ChangedDevice),
    _of_device("book", BookRequest, NewBooking),
    _of_device("label", LabelRequest, ChangedDevice),
    _of_device("rename", RenameRequest, ChangedDevice),
    _of_device("forget", Reason, ChangedDevice),
    _of_agent("POST", "revoke", "revokeAgent", Reason, Count),
    _of_agent("POST", "admit", "admitAgent", Reason, Count),
    _of_agent("POST", "drain", "drainAgent", Reason, ChangedDrain),
    _of_agent("POST", "undrain", "undrainAgent", Reason, ChangedDrain),
    _of_agent("GET", "drain", "showDrain", None, AgentDrain),
    _of_administrator("GET", "/tokens", "listTokens", None, TokenList),
    _of_administrator("POST", "/tokens", "createToken", NewTokenRequest, NewToken),
    _of_administrator("POST", "/tokens/revoke", "revokeToken", TokenRequest, TokenList),
)
