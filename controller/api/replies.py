"""Replies over HTTP: their ETags, what of them is asked for, and refusals."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from io import BytesIO
from typing import Final

from aiohttp import web

from controller.api.problems import MEDIA_TYPE, Problem, problem
from controller.api.routes import DESCRIPTION
from controller.platform.terminal import LONGEST

PIECE_BYTES: Final = 2**16
NO_HEADERS: Final[Mapping[str, str]] = {}
SAFE: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache"}
"""Headers of every reply: JSON is never taken for a page, and nothing is shared."""


def tagged(request: web.Request, body: bytes) -> web.Response:
    """Return the answer of a GET route, or 304 if the caller has it."""
    tag = etag_of(body)
    headers = {**SAFE, "ETag": tag}
    if is_known(request.headers.getall("If-None-Match", []), tag):
        return web.Response(status=304, headers=headers)
    return web.Response(body=in_pieces(body), content_type="application/json", headers=headers)


def in_pieces(body: bytes) -> bytes | BytesIO:
    """Return the body of an answer so that it is sent in pieces if it is large.

    Over TLS, a single write of all is taken at once, however slowly it is read, and the rest is
    lost when the connection is closed as idle.
    """
    return BytesIO(body) if len(body) > PIECE_BYTES else body


def etag_of(body: bytes) -> str:
    """Return the strong ETag of an answer."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def is_known(given: list[str], tag: str) -> bool:
    """Return whether If-None-Match names a tag (RFC 9110, 13.1.2: weak comparison)."""
    said = [one.strip().removeprefix("W/") for line in given for one in line.split(",")]
    return tag in said or "*" in said


def asked_range(request: web.Request, tag: str) -> str | None:
    """Return the range that is asked for; None if it is one of a content that was another."""
    if request.headers.get("If-Range", tag) != tag:
        return None
    return request.headers.get("Range")


def problem_of_aiohttp(
    request: web.Request, error: web.HTTPException
) -> tuple[Problem, Mapping[str, str]]:
    """Return the problem for an address or a method that there is not, and its headers."""
    where = request.path[:LONGEST]
    remedy = f"See {DESCRIPTION}."
    if isinstance(error, web.HTTPMethodNotAllowed):
        said = problem(405, f"{where} has no {error.method[:LONGEST]}", remedy)
        return said, {"Allow": ", ".join(sorted(error.allowed_methods))}
    return problem(404, f"there is no {where}", remedy), NO_HEADERS


def refusal(said: Problem, headers: Mapping[str, str]) -> web.Response:
    """Return a problem as a reply."""
    return web.Response(
        text=said.model_dump_json(),
        status=said.status,
        content_type=MEDIA_TYPE,
        headers={**SAFE, **headers},
    )
