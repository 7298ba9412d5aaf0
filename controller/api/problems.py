"""Errors of the API as problem details (RFC 9457), media type application/problem+json. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from controller.contracts.base import Contract
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import (
    BenchfarmError,
    CopyDamaged,
    FarmUnavailable,
    HomeUnusable,
    NotAllowed,
    NotFound,
    OverQuota,
    StoreUnavailable,
    UserError,
)
from controller.metrics.web_server import TooManyRequests
from controller.platform.terminal import visible
from controller.runtime.client import MaybeDone

MEDIA_TYPE: Final = "application/problem+json"
URN: Final = "urn:benchfarm:problem:"
QUOTA: Final = f"{URN}over-quota"
"""Type of a request beyond the user's quota: repeating it does not help."""
TYPES: Final[dict[int, str]] = {
    401: "no-valid-token",
    403: "not-allowed",
    404: "not-found",
    405: "method-not-allowed",
    408: "body-too-slow",
    413: "body-too-large",
    415: "unsupported-media-type",
    416: "range-not-satisfiable",
    422: "invalid-request",
    429: "too-many-requests",
    500: "internal-error",
    503: "unavailable",
}
"""Status → the end of the problem's type, which is a URN; a quota's is QUOTA."""
TITLES: Final[dict[int, str]] = {
    401: "The request has no valid token",
    403: "The token does not allow this",
    404: "There is no such thing",
    405: "The address has no such method",
    408: "The body did not arrive in time",
    413: "The body is too large",
    415: "The body is not plain JSON",
    416: "The content has no such range",
    422: "The request cannot be understood",
    429: "Too many requests, or beyond the user's quota",
    500: "The server failed",
    503: "The store or the controller cannot be used now",
}
"""Status → what it means here, in every answer the same."""


class Problem(Contract):
    """Why a request failed, and what to do (RFC 9457)."""

    type: str
    """`urn:benchfarm:problem:…`; one for each status, and `over-quota` beside that of 429."""
    title: str
    status: int
    detail: str
    """What could not be done, and why."""
    remedy: str = ""
    """What to do."""


class Unauthenticated(UserError):
    """A request without a valid token."""


class InvalidRequest(UserError):
    """A parameter or a body that cannot be understood."""


class BodyLate(UserError):
    """A body that did not arrive in time."""


class BodyTooLarge(UserError):
    """A body beyond the limit."""


class BodyEncoded(UserError):
    """A body that is not plain JSON."""


class RangeBeyond(UserError):
    """A range that begins beyond the end."""


class TooFast(UserError):
    """More requests than the rate allows."""


_STATUSES: Final[tuple[tuple[type[BenchfarmError], int], ...]] = (
    (Unauthenticated, 401),
    (NotAllowed, 403),
    (NotFound, 404),
    (BodyLate, 408),
    (BodyTooLarge, 413),
    (BodyEncoded, 415),
    (RangeBeyond, 416),
    (TooFast, 429),
    (TooManyRequests, 429),
    (OverQuota, 429),
    (CopyDamaged, 503),
    (FarmUnavailable, 503),
    (HomeUnusable, 503),
    (StoreUnavailable, 503),
)
"""Each error's status; of any other UserError, 422."""


@contextmanager
def own_fault() -> Iterator[None]:
    """Raise HomeUnusable for a UserError: a fault of the head, which no parameter can mend."""
    try:
        yield
    except UserError as error:
        raise HomeUnusable(error.tried, error.seen, error.remedy) from error


def type_of(status: int) -> str:
    """Return the type of the problems of a status that TYPES has."""
    return f"{URN}{TYPES[status]}"


def problem(status: int, detail: str, remedy: str = "") -> Problem:
    """Return a problem of a status that TYPES has."""
    return Problem(
        type=type_of(status),
        title=TITLES[status],
        status=status,
        detail=visible(detail),
        remedy=visible(remedy),
    )


def problem_of(error: UserError | StoreUnavailable) -> Problem:
    """Return the problem that an error is for the caller; it names no file of the head."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 422)
    if isinstance(error, StoreUnavailable):
        remedy = "Ask the administrator to run `benchfarm store check` on the head."
        return problem(status, "cannot read the head's store", remedy)
    if isinstance(error, HomeUnusable):
        remedy = "Ask the administrator to look into the log of the API on the head."
        return problem(status, "cannot read the head's files", remedy)
    if isinstance(error, MaybeDone):
        detail = "the controller did not answer; it may have done what was asked"
        return problem(status, detail, error.remedy)
    if isinstance(error, FarmUnavailable):
        remedy = "Repeat it later; what is stored can be read meanwhile."
        return problem(status, "the controller cannot be reached, or cannot store it", remedy)
    said = ErrorPayload.of(error)
    seen = said.seen.removesuffix(".")
    found = problem(status, f"cannot {said.tried}: {seen}", said.remedy)
    return found.model_copy(update={"type": QUOTA}) if isinstance(error, OverQuota) else found
