"""The OpenAPI 3.1 description of the API, made from the table of routes and the contracts. Pure.

pydantic writes the schemas, so they are those by which answers are serialised and bodies checked.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from pydantic.json_schema import models_json_schema

from controller.api.prefix import PREFIX
from controller.api.problems import MEDIA_TYPE, TITLES, Problem
from controller.api.queries import NoQuery
from controller.api.route_kinds import TOTAL, ExportRoute, ReadRoute, WriteRoute
from controller.api.routes import BINARY, CONTENT, DESCRIPTION, EVENTS, EXPORTS, READS, WRITES
from controller.contracts.base import Contract, canonical_json
from controller.contracts.records import Scope
from controller.contracts.wire import RunEvent

Json: TypeAlias = dict[str, Any]
Mode: TypeAlias = Literal["validation", "serialization"]
VERSION: Final = "3.1.0"
REFERENCE: Final = "#/components/schemas/{model}"
ALWAYS: Final = (401, 422, 429, 500, 503)
"""Statuses of problems that every route may answer with."""
OF_BODIES: Final = (408, 413, 415)
PROTOCOL: Final = {
    400: "The request is not HTTP/1.1, or its head is larger than the limits; the text says why.",
    417: "The request expects something other than 100-continue.",
}
"""Answers of the HTTP server itself, before any route is looked for."""
ETAG: Final[Json] = {
    "ETag": {
        "description": "Digest of the answer, for If-None-Match.",
        "schema": {"type": "string"},
    }
}
TEXT: Final[Json] = {"type": "string"}
RANGE: Final[Json] = {
    "name": "Range",
    "in": "header",
    "required": False,
    "description": "One range of bytes; with If-Range, only of a content with that ETag.",
    "schema": TEXT,
}
IF_NONE_MATCH: Final[Json] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "ETag of an earlier answer; 304 if the answer would be the same.",
    "schema": {"type": "string"},
}


_READING: Final[tuple[ReadRoute[Any] | ExportRoute[Any], ...]] = (*READS, *EXPORTS)


def description(version: str) -> Json:
    """Return the description. version: of benchfarm."""
    schemas = _Schemas()
    paths: dict[str, Json] = {}
    for route in READS:
        paths.setdefault(f"{PREFIX}{route.path}", {})["get"] = _reading(route, schemas)
    for export in EXPORTS:
        paths[f"{PREFIX}{export.path}"] = {"get": _exporting(export, schemas)}
    paths[f"{PREFIX}{CONTENT}"] = {"get": _content_of(schemas)}
    paths[f"{PREFIX}{EVENTS}"] = {"get": _watching(schemas)}
    for write in WRITES:
        path = paths.setdefault(f"{PREFIX}{write.path}", {})
        path[write.method.lower()] = _writing(write, schemas)
    paths[DESCRIPTION] = {"get": _itself(schemas)}
    return {
        "openapi": VERSION,
        "info": {
            "title": "benchfarm",
            "version": version,
            "description": "Results, sweeps and devices of a benchfarm farm.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `benchfarm token create NAME --scope SCOPE`.",
                }
            },
            "schemas": schemas.components,
        },
    }


@cache
def described(version: str) -> bytes:
    """Return the description as it is sent; to work it out takes a third of a second."""
    return canonical_json(description(version)).encode()


class _Schemas:
    """The schemas of all contracts, each once."""

    def __init__(self) -> None:
        answers: set[type[Contract]] = {
            Problem,
            RunEvent,
            *(r.answer for r in READS),
            *(w.answer for w in WRITES),
        }
        given: set[type[Contract]] = {
            *(route.query for route in _READING),
            *(w.body for w in WRITES if w.body),
        }
        wanted: list[tuple[type[Contract], Mode]] = [
            *((kind, "serialization") for kind in sorted(answers, key=_name)),
            *((kind, "validation") for kind in sorted(given, key=_name)),
        ]
        self._references, document = models_json_schema(wanted, ref_template=REFERENCE)
        definitions: Json = document.get("$defs", {})
        self._queries = {
            route.query: definitions.get(_name(route.query), {}).get("properties", {})
            for route in _READING
        }
        self._required = {
            route.query: definitions.get(_name(route.query), {}).get("required", [])
            for route in _READING
        }
        unused = {_name(route.query) for route in _READING}
        self.components = {name: one for name, one in definitions.items() if name not in unused}

    def answer(self, kind: type[Contract]) -> Json:
        return self._references[kind, "serialization"]

    def body(self, kind: type[Contract]) -> Json:
        return self._references[kind, "validation"]

    def parameters(self, kind: type[NoQuery]) -> list[Json]:
        return [
            {
                "name": name,
                "in": "query",
                "required": name in self._required[kind],
                "description": schema.get("description", ""),
                "schema": _without_null(schema),
            }
            for name, schema in self._queries[kind].items()
        ]


def _reading(route: ReadRoute[Any], schemas: _Schemas) -> Json:
    ids = _ids(route.path)
    return {
        **_head(route),
        "parameters": [*ids, *schemas.parameters(route.query), IF_NONE_MATCH],
        "responses": _responses(
            schemas,
            schemas.answer(route.answer),
            (*ALWAYS, *((404,) if ids else ()), *route.statuses),
            tagged=True,
        ),
    }


def _exporting(route: ExportRoute[Any], schemas: _Schemas) -> Json:
    binary: Json = {"type": "string", "format": "binary"}
    good = {
        "description": "OK; ends early if it cannot be read on.",
        "headers": {TOTAL: {"description": "Items that fit.", "schema": {"type": "integer"}}},
        "content": {media_type: {"schema": binary} for media_type in route.media_types},
    }
    responses = _responses(schemas, binary, ALWAYS, tagged=False)
    return {
        **_head(route),
        "parameters": schemas.parameters(route.query),
        "responses": {**responses, "200": good},
    }


def _content_of(schemas: _Schemas) -> Json:
    binary: Json = {"type": "string", "format": "binary"}
    responses = _responses(schemas, binary, (*ALWAYS, 404, 416), tagged=True)
    said = {"Content-Range": {"description": "Which bytes, of how many.", "schema": TEXT}}
    part = {"headers": {**ETAG, **said}, "content": _content(BINARY, binary)}
    return {
        "operationId": "showArtefact",
        "summary": "Return the content of an artefact that is on the head, or a range of it.",
        "parameters": [*_ids(CONTENT), RANGE, IF_NONE_MATCH],
        "responses": {
            **responses,
            "200": {**responses["200"], "content": _content(BINARY, binary)},
            "206": {"description": "The range that was asked for.", **part},
            "416": {**responses["416"], "headers": said},
        },
    }


def _watching(schemas: _Schemas) -> Json:
    answer = schemas.answer(RunEvent)["$ref"].rpartition("/")[2]
    said = f"Server-sent events named `run`, whose data is a {answer}; comments now and then."
    good = {"description": said, "content": _content("text/event-stream", {"type": "string"})}
    responses = _responses(schemas, {}, (*ALWAYS, 404), tagged=False)
    return {
        "operationId": "watchSweep",
        "summary": "Watch a sweep: its runs' states and progress from now on, until you leave.",
        "parameters": _ids(EVENTS),
        "responses": {**responses, "200": good},
    }


def _writing(route: WriteRoute[Any], schemas: _Schemas) -> Json:
    ids = _ids(route.path)
    named = ids or route.scope is Scope.ADMINISTRATOR
    statuses = (*ALWAYS, 403, *((404,) if named else ()), *(OF_BODIES if route.body else ()))
    operation = {
        **_head(route),
        "parameters": ids,
        "responses": _responses(schemas, schemas.answer(route.answer), statuses, tagged=False),
    }
    if route.body:
        content = {"application/json": {"schema": schemas.body(route.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _itself(schemas: _Schemas) -> Json:
    return {
        "operationId": "describe",
        "summary": "Show this description.",
        "parameters": [IF_NONE_MATCH],
        "responses": _responses(schemas, {"type": "object"}, ALWAYS, tagged=True),
    }


def _head(route: ReadRoute[Any] | WriteRoute[Any] | ExportRoute[Any]) -> Json:
    return {"operationId": route.name, "summary": route.summary}


def _responses(schemas: _Schemas, good: Json, statuses: tuple[int, ...], *, tagged: bool) -> Json:
    """tagged: whether the answer has an ETag."""
    answers: Json = {"200": {"description": "OK", "content": _content("application/json", good)}}
    if tagged:
        answers["200"]["headers"] = ETAG
        answers["304"] = {"description": "The answer is what If-None-Match names.", "headers": ETAG}
    for status, why in PROTOCOL.items():
        text = _content("text/plain", {"type": "string"})
        answers[str(status)] = {"description": why, "content": text}
    for status in sorted(statuses):
        answers[str(status)] = {
            "description": TITLES[status],
            "content": _content(MEDIA_TYPE, schemas.answer(Problem)),
            **_headers(status),
        }
    return answers


def _headers(status: int) -> Json:
    said = {
        401: ("WWW-Authenticate", "The scheme of tokens.", "string", True),
        429: ("Retry-After", "Seconds to wait; none beyond a quota.", "integer", False),
    }
    if status not in said:
        return {}
    name, what, kind, required = said[status]
    header = {"description": what, "required": required, "schema": {"type": kind}}
    return {"headers": {name: header}}


def _content(media_type: str, schema: Json) -> Json:
    return {media_type: {"schema": schema}}


def _ids(path: str) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _without_null(schema: Json) -> Json:
    """Return a parameter's schema: one that is left out has no value, not null."""
    bare = {k: v for k, v in schema.items() if k not in ("title", "description", "default")}
    choices = [one for one in bare.pop("anyOf", ()) if one != {"type": "null"}]
    if len(choices) > 1:
        bare["anyOf"] = choices
    elif choices:
        bare |= choices[0]
    default = schema.get("default")
    return bare if default is None else {**bare, "default": default}


def _name(kind: type[Contract]) -> str:
    return kind.__name__
