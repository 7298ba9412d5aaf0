"""Reading and writing the JSON bodies of the HTTP interface."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from aiohttp import web
from pydantic import ValidationError

from controller.contracts.base import Contract
from controller.contracts.documents import DocumentRefused, checked_json
from controller.contracts.errors import UserError
from controller.contracts.wording import faults_of

Body = TypeVar("Body", bound=Contract)
MAX_BODY_BYTES = 2**20
BODY_TIMEOUT_S: Final = 30.0
BODY_TIMEOUT: Final = web.AppKey("body_timeout_s", float)
"""Key of an application: how long a body may take to arrive, in seconds."""
SHOWN_CHARACTERS = 200
_REMEDY = "Send what this release's command line sends."


async def read_body(
    kind: type[Body],
    request: web.Request,
    tried: str,
    error: type[UserError] = UserError,
) -> Body:
    """Return a request's body; raises `error`, which names the wrong key."""
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":  # 1 MiB can hide a thousand of them
        seen = f"the body is encoded: Content-Encoding {encoding[:SHOWN_CHARACTERS]!r}"
        raise error(tried, seen, "Send it as plain JSON.")
    timeout_s = request.app[BODY_TIMEOUT]
    try:
        async with asyncio.timeout(timeout_s):
            body = await request.read()
        return kind.model_validate_json(checked_json(body, MAX_BODY_BYTES))
    except TimeoutError as late:
        seen = f"the body did not arrive within {timeout_s:.0f} s"
        raise error(tried, seen, "Send it at once, or check the network.") from late
    except DocumentRefused as refused:
        raise error(tried, str(refused), _REMEDY) from refused
    except ValidationError as refused:
        first = faults_of(refused)[0]
        place, why = first.key[:SHOWN_CHARACTERS], first.said[:SHOWN_CHARACTERS]
        raise error(tried, f"key {place}: {why}" if place else why, _REMEDY) from refused
    except web.HTTPRequestEntityTooLarge as refused:
        seen, remedy = "the body is too large", f"Send at most {MAX_BODY_BYTES} bytes."
        raise error(tried, seen, remedy) from refused


def answer(model: Contract, status: int = 200) -> web.Response:
    """Return a contract as a response."""
    return web.Response(
        text=model.model_dump_json(), status=status, content_type="application/json"
    )
