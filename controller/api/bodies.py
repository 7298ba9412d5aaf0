"""Bodies of requests: JSON of limited size, which arrives in time."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from aiohttp import web
from pydantic import ValidationError

from controller.api.problems import BodyEncoded, BodyLate, BodyTooLarge, InvalidRequest
from controller.contracts.base import Contract
from controller.contracts.documents import DocumentRefused, checked_json
from controller.contracts.wording import faults_of

Body = TypeVar("Body", bound=Contract)
TRIED: Final = "read the body"
SHOWN_CHARACTERS: Final = 200


async def read_body(kind: type[Body], request: web.Request, timeout_s: float) -> Body:
    """Return a request's body.

    Raises BodyEncoded, BodyTooLarge, BodyLate, and InvalidRequest, which names the wrong key.
    """
    raw = await _bytes_of(request, timeout_s)
    remedy = "Send what /api/v1/openapi.json describes."
    try:
        return kind.model_validate_json(checked_json(raw, request.client_max_size))
    except DocumentRefused as refused:
        raise InvalidRequest(TRIED, str(refused), remedy) from refused
    except ValidationError as refused:
        first = faults_of(refused)[0]
        place, why = first.key[:SHOWN_CHARACTERS], first.said[:SHOWN_CHARACTERS]
        raise InvalidRequest(TRIED, f"key {place}: {why}" if place else why, remedy) from refused


async def _bytes_of(request: web.Request, timeout_s: float) -> bytes:
    is_plain = request.headers.get("Content-Encoding", "identity") == "identity"
    if request.content_type != "application/json" or not is_plain:
        seen = "it is not plain JSON"
        raise BodyEncoded(TRIED, seen, "Send it as application/json, without an encoding.")
    most = request.client_max_size
    too_large = BodyTooLarge(TRIED, f"it has more than {most} bytes", "Send less.")
    if (request.content_length or 0) > most:
        raise too_large
    try:
        async with asyncio.timeout(timeout_s):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as refused:
        raise too_large from refused
    except TimeoutError as late:
        seen = f"it did not arrive within {timeout_s:.0f} s"
        raise BodyLate(TRIED, seen, "Send it at once, or check the network.") from late
