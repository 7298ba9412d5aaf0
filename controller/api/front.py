"""What may be served beside the API's routes, at the same address: pages for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from aiohttp import web

from controller.api.identity import Caller
from controller.api.problems import Problem
from controller.api.reads import Reading

Value = TypeVar("Value")


class Backing(Protocol):
    """What a front works with: turns at the store and at the controller, shared with the API."""

    async def read(self, work: Callable[[Reading], Value]) -> Value:
        """Return what work makes of the store, in a thread; called for each page."""
        ...

    async def ask(self, work: Callable[[Reading], Value]) -> Value:
        """Return what work makes of the store and of what the controller alone knows, in a thread;
        called for each part of a page that needs both, for the controller may be stuck."""
        ...

    async def write(self, work: Callable[[Reading], Value]) -> Value:
        """Return what work makes of the controller's answer, in a thread; called for each form."""
        ...

    async def caller(self, request: web.Request, authorization: str) -> Caller:
        """Return whose a token is; called where someone signs in.

        Raises what the server refuses a request with: no token, one that is not valid, and too
        many of either.
        """
        ...

    async def content(self, request: web.Request) -> web.StreamResponse:
        """Answer with the artefact of the SHA-256 that a path has, or with a range of it; called
        where a file is asked for. Raises NotFound, StoreUnavailable."""
        ...


class Front(Protocol):
    """Routes for people: how their requests show a token, and how they are refused."""

    def routes(self, backing: Backing) -> Sequence[web.RouteDef]:
        """Return its routes; called once, at the start, with what they work with."""
        ...

    def serves(self, request: web.Request) -> bool:
        """Return whether a request is for it, and not for the API; called for each, first."""
        ...

    def is_open(self, request: web.Request) -> bool:
        """Return whether a request needs no token; called for each that it serves."""
        ...

    def authorization(self, request: web.Request) -> str:
        """Return what stands for the Authorization header of a request; "" for nothing."""
        ...

    def refused(
        self, request: web.Request, said: Problem, headers: Mapping[str, str]
    ) -> web.Response:
        """Return the answer to a request that is refused."""
        ...
