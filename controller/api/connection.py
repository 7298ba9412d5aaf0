"""Requests to the API of a farm elsewhere: what is sent, and what its answers and refusals mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import httpx
from pydantic import ValidationError

from controller.api.answers import Page
from controller.api.contexts import FarmContext
from controller.api.prefix import PREFIX
from controller.api.problems import QUOTA, Problem, type_of
from controller.api.queries import MOST_ITEMS
from controller.contracts.base import Contract
from controller.contracts.errors import (
    FarmUnavailable,
    NotAllowed,
    NotFound,
    OverQuota,
    UserError,
)
from controller.runtime.client import NOT_SENT, QUIET_S, joined, maybe_done

MAX_ANSWER_BYTES: Final = 2**28
CONNECT_S: Final = 10.0
ANSWER_S: Final = 60.0
TRIES: Final = 20
"""How often a request beyond the rate is made again, each time after the wait that is asked for."""
LONGEST_WAIT_S: Final = 30.0
GOOD: Final = (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT)
Answer = TypeVar("Answer", bound=Contract)
Item = TypeVar("Item", bound=Contract)
Found = TypeVar("Found")
Params = Mapping[str, str]
KINDS: Final[Mapping[str, type[UserError]]] = {
    type_of(403): NotAllowed,
    type_of(404): NotFound,
    QUOTA: OverQuota,
    type_of(503): FarmUnavailable,
}
"""Each type of problem's error; of any other, UserError."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request whose whole answer is wanted."""

    method: str
    path: str
    """Below the prefix."""
    params: Params = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_repeatable(self) -> bool:
        """Whether it does no more if it is made twice: it reads, cancels, or submits once."""
        return self.method != "POST" or (self.body or {}).get("again") is False


Steps = Generator[Ask, bytes, Found]
"""Requests that are made one after the other: each is sent its answer, and in the end there is what
was found. Whoever runs them waits in the way that suits, blocking or not."""


class TooSoon(Exception):
    """A request beyond the rate; seconds: after which it may be made again."""

    def __init__(self, seconds: float, refusal: UserError) -> None:
        super().__init__(seconds, refusal)
        self.seconds = seconds
        self.refusal = refusal


class Words:
    """What is said of a farm's answers."""

    def __init__(self, context: FarmContext) -> None:
        self._context = context

    @property
    def tried(self) -> str:
        """What a request tries."""
        return f"ask the farm at {self._context.url}"

    def one(self, kind: type[Answer], ask: Ask) -> Steps[Answer]:
        """Return the answer to one request."""
        return self.parsed(kind, (yield ask))

    def every(
        self,
        kind: type[Page[Item]],
        path: str,
        params: Params,
        tell: Callable[[int], None] = lambda _: None,
    ) -> Steps[list[Item]]:
        """Return the items of all pages of a list; tell: told how many are damaged there."""
        found: list[Item] = []
        left_out = 0
        cursor: str | None = None
        while True:
            asked = {"limit": str(MOST_ITEMS), **params, **({"cursor": cursor} if cursor else {})}
            page = self.parsed(kind, (yield Ask("GET", path, asked)))
            found += page.items
            left_out += page.left_out
            if page.next is None:
                tell(left_out)
                return found
            cursor = page.next

    def parsed(self, kind: type[Answer], content: bytes) -> Answer:
        """Return what an answer says; raises UserError."""
        try:
            return kind.model_validate_json(content)
        except ValidationError as error:
            raise self.stranger("its answer is not one of this release") from error

    def require_good(self, response: httpx.Response, content: bytes) -> None:
        """Raise TooSoon, or the farm's UserError, for an answer that is none."""
        if response.status_code in GOOD:
            return
        refusal = self.refused(response.status_code, content)
        wait = response.headers.get("Retry-After", "")
        if response.status_code == 429 and wait.isdigit() and not isinstance(refusal, OverQuota):
            raise TooSoon(min(float(wait), LONGEST_WAIT_S), refusal)
        raise refusal

    def refused(self, status: int, content: bytes) -> UserError:
        """Return the error that a refusal is."""
        try:
            said = Problem.model_validate_json(content)
        except ValidationError:
            return self.stranger(f"it answered with status {status}")
        if status == httpx.codes.UNAUTHORIZED:
            remedy = "Run `benchfarm login` with a token that is valid."
            return UserError(self.tried, said.detail, remedy)
        # In the words that the head says it in.
        tried, parted, seen = said.detail.removeprefix("cannot ").partition(": ")
        if status == httpx.codes.NOT_FOUND and not parted:
            return self.older(said.detail)
        if not (parted and said.detail.startswith("cannot ")):
            tried, seen = self.tried, said.detail
        return KINDS.get(said.type, UserError)(tried, seen, said.remedy)

    def away(self, error: Exception, ask: Ask) -> FarmUnavailable:
        """Return the error of a farm that does not answer a request."""
        said = str(error) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in said:
            seen = "its certificate is not the one that `benchfarm login` was shown"
            remedy = "Ask the administrator for the fingerprint, then run `benchfarm login` again."
            if "has expired" in said:
                seen = "its certificate has expired by this host's clock"
                remedy = (
                    "If the clock is right, ask the administrator to start the API again, which "
                    f"makes a new one. {remedy}"
                )
            elif "not yet valid" in said:
                seen = "its certificate is not yet valid by this host's clock"
                remedy = (
                    "Set the clock; if it is right, that of the head was wrong: ask the "
                    "administrator to delete api-cert.pem and to start the API again."
                )
            return FarmUnavailable(self.tried, seen, remedy)
        if isinstance(error, (*NOT_SENT, httpx.InvalidURL)) or ask.is_repeatable:
            return FarmUnavailable(self.tried, said, "Check the address, and that it is served.")
        return maybe_done(self.tried, said)

    def stranger(self, seen: str) -> UserError:
        """Return the error of something else that listens there."""
        remedy = "Check that `benchfarm api serve` of this release listens there."
        return UserError(self.tried, seen, remedy)

    def older(self, seen: str) -> UserError:
        """Return the error of a farm that has no such address, since its release is another one."""
        remedy = "Its release is an older one than this host's; upgrade its head."
        return UserError(self.tried, seen, remedy)

    def options(self) -> dict[str, Any]:
        """Return the options of a client of httpx."""
        return {
            "base_url": self._context.url + PREFIX,
            "headers": {
                "Authorization": f"Bearer {self._context.token}",
                "Accept-Encoding": "identity",
            },
            "verify": self._context.trust(),
            "timeout": httpx.Timeout(CONNECT_S, read=ANSWER_S),
            "trust_env": False,
        }


class Connection:
    """Makes requests to a farm, blocking."""

    def __init__(
        self,
        context: FarmContext,
        *,
        kept: bool = False,
        answer_s: float = ANSWER_S,
        quiet_s: float = QUIET_S,
    ) -> None:
        """kept: whether a connection is used again until `close`, rather than made each time.
        answer_s, quiet_s: longest silence of an answer, and of an endless one.
        """
        self.words = Words(context)
        self._kept = kept
        self._answer_s = answer_s
        self._quiet_s = quiet_s
        self._client: httpx.Client | None = None

    def run(self, steps: Steps[Found]) -> Found:
        """Return what requests find; raises UserError."""
        try:
            ask = next(steps)
            while True:
                ask = steps.send(self.fetch(ask))
        except StopIteration as end:
            found: Found = end.value
            return found

    def fetch(self, ask: Ask) -> bytes:
        """Return the answer to a request; raises UserError."""
        with self.stream(ask) as response:
            content = joined(response.iter_raw(), MAX_ANSWER_BYTES)
        if content is None:
            seen = f"its answer is longer than {MAX_ANSWER_BYTES >> 20} MiB"
            remedy = "Ask for less; `benchfarm results export` writes any number of results."
            raise UserError(self.words.tried, seen, remedy)
        return content

    @contextmanager
    def stream(self, ask: Ask, *, endless: bool = False) -> Iterator[httpx.Response]:
        """Give the answer to a request, to be read while it comes; raises UserError.

        endless: whether it goes on until one side leaves, with a sign of life now and then.
        """
        for tries in range(1, TRIES + 1):
            try:
                with self._answering(ask, endless=endless) as response:
                    yield response
                return
            except TooSoon as wait:
                if tries == TRIES:
                    raise wait.refusal from wait
                time.sleep(wait.seconds)
            except (httpx.TransportError, httpx.InvalidURL) as error:
                raise self.words.away(error, ask) from error

    @contextmanager
    def _answering(self, ask: Ask, *, endless: bool) -> Iterator[httpx.Response]:
        with self._connected() as client:
            read_s = self._quiet_s if endless else self._answer_s
            timeout = httpx.Timeout(CONNECT_S, read=read_s)
            with client.stream(
                *(ask.method, ask.path),
                params=dict(ask.params),
                headers=dict(ask.headers),
                json=ask.body,
                timeout=timeout,
            ) as response:
                if response.status_code not in GOOD:
                    self.words.require_good(response, response.read()[:MAX_ANSWER_BYTES])
                yield response

    @contextmanager
    def _connected(self) -> Iterator[httpx.Client]:
        if not self._kept:
            with httpx.Client(**self.words.options()) as client:
                yield client
            return
        if self._client is None:
            self._client = httpx.Client(**self.words.options())
        yield self._client

    def close(self) -> None:
        """Close the connections; they are made again when they are needed."""
        if self._client is not None:
            self._client.close()
            self._client = None
