"""Bodies of the HTTP interface: JSON in, JSON out, and one line about what is wrong with one."""

from __future__ import annotations

from typing import TypeVar

from aiohttp import web
from pydantic import ValidationError

from controller.contracts.base import Contract
from controller.contracts.errors import UserError

Body = TypeVar("Body", bound=Contract)
MAX_BODY_BYTES = 2**20
SHOWN_CHARACTERS = 200


async def read_body(
    kind: type[Body],
    request: web.Request,
    noun: str,
    error: type[UserError] = UserError,
) -> Body:
    """Return a request's body; raises `error`, which names the key."""
    try:
        return kind.model_validate_json(await request.read())
    except ValidationError as refused:
        first = refused.errors()[0]
        place = ".".join(map(str, first["loc"]))[:SHOWN_CHARACTERS]
        raise error(
            f"{noun}, key {place}" if place else noun,
            first["msg"][:SHOWN_CHARACTERS],
            "write it as this release's command line does",
        ) from refused
    except web.HTTPRequestEntityTooLarge as refused:
        raise error(noun, "it is too large", f"send at most {MAX_BODY_BYTES} bytes") from (refused)


def answer(model: Contract, status: int = 200) -> web.Response:
    """Return a contract as a response."""
    return web.Response(
        text=model.model_dump_json(), status=status, content_type="application/json"
    )
