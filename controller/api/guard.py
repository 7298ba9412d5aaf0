"""What stands before every route: tokens, rates, and what a refused request is answered."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from controller.api.identity import REALM, Caller, caller_of, known_digests
from controller.api.options import ApiOptions
from controller.api.problems import Problem, TooFast, Unauthenticated, problem, problem_of, type_of
from controller.api.rates import RateLimit
from controller.api.replies import NO_HEADERS, problem_of_aiohttp, refusal
from controller.api.source import Source, Threads
from controller.contracts.errors import HomeUnusable, StoreUnavailable, UserError
from controller.metrics.web_server import answered, answered_openly, once_per_period, turned_away
from controller.platform.terminal import LONGEST
from controller.runtime.access import bearer, digest_of
from controller.runtime.home import Home

log = logging.getLogger(__name__)
KNOWN_FOR_S: Final = 1.0
"""For so long, the tokens that were read are used to turn away who guesses them."""
CALLER: Final = web.RequestKey("api_caller", Caller)


class Guard:
    """Lets a request in with the token of a user, within the user's rate."""

    def __init__(self, home: Home, source: Source, threads: Threads, options: ApiOptions) -> None:
        self._home = home
        self._source = source
        self._threads = threads
        self._options = options
        self._callers = RateLimit(options.rate, options.clock)
        self._strangers = RateLimit(options.strangers, options.clock)
        self._known: frozenset[str] = frozenset()
        self._known_at = -math.inf
        self._listing = asyncio.Lock()
        self._log = once_per_period(log)

    def middleware(self) -> Middleware:
        """Return what stands before every route."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                return await self._admit(request, handler)
            except Unauthenticated as error:
                said = self._refusal(request, problem_of(error), {"WWW-Authenticate": REALM})
                return await turned_away(request, said)
            except _Wait as wait:
                said = self._refused(request, *_too_fast(wait.seconds))
                return await turned_away(request, said) if wait.stranger else said
            except (UserError, StoreUnavailable) as error:
                if isinstance(error, StoreUnavailable | HomeUnusable):
                    self._log.error("the head's files cannot be read: %s", error)
                return self._refused(request, problem_of(error))
            except web.HTTPException as error:
                return self._refusal(request, *problem_of_aiohttp(request, error))
            except Exception:  # noqa: BLE001 - the boundary: every fault is logged
                self._log.exception("%s %s failed", request.method, request.path[:LONGEST])
                fault = problem(500, "the server has a fault", "See the server's log.")
                return self._refusal(request, fault)

        return guard

    async def caller(self, request: web.Request, authorization: str) -> Caller:
        """Return whose a token is; see Backing."""
        address = request.remote or ""
        wait_s = self._strangers.wait_s(address)
        if wait_s and not await self._may_be_known(authorization):
            raise _Wait(wait_s, stranger=True)
        try:
            caller: Caller = await self._threads.read(self.holder, authorization)
        except (Unauthenticated, StoreUnavailable, HomeUnusable):
            self._strangers.take(address)  # whoever it is, if the store can't tell
            raise
        if wait_s := self._callers.take(caller.name):
            raise _Wait(wait_s, stranger=False)
        return caller

    def holder(self, authorization: str) -> Caller:
        """Return whose a token is, as the store has it now; blocks. Raises Unauthenticated."""
        return caller_of(authorization, self._source.store(), self._home)

    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        front, said = self._options.front, request.headers.get("Authorization", "")
        if front and front.serves(request):
            if front.is_open(request):
                return await answered_openly(request, handler)
            said = front.authorization(request)
        caller = await self.caller(request, said)
        request[CALLER] = caller
        return await answered(request, caller.name, handler)

    async def _may_be_known(self, authorization: str) -> bool:
        """Return whether a token was there when all were last read, at little cost.

        Whoever guesses tokens holds up nobody who has one, also from the same address.
        """
        async with self._listing:
            now = self._options.clock()
            if now - self._known_at >= KNOWN_FOR_S:
                self._known_at = now  # also if it fails: those who were known stay so
                self._known = await self._threads.read(self._digests)
        given = bearer(authorization)
        return given is not None and digest_of(given) in self._known

    def _digests(self) -> frozenset[str]:
        return known_digests(self._source.store(), self._home)

    def _refused(self, request: web.Request, said: Problem, wait_s: int = 1) -> web.Response:
        headers = {"Retry-After": str(wait_s)} if said.type == type_of(429) else {}
        return self._refusal(request, said, headers)

    def _refusal(
        self, request: web.Request, said: Problem, headers: Mapping[str, str] = NO_HEADERS
    ) -> web.Response:
        front = self._options.front
        if front and front.serves(request):
            return front.refused(request, said, headers)
        return refusal(said, headers)


class _Wait(Exception):
    """A request beyond the rate; seconds: after which it may be repeated."""

    def __init__(self, seconds: float, *, stranger: bool) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.stranger = stranger


def _too_fast(wait_s: float) -> tuple[Problem, int]:
    seconds = max(1, math.ceil(wait_s))
    error = TooFast("answer the request", "too many were made", f"Wait {seconds} s.")
    return problem_of(error), seconds
