"""The user's side of the controller's HTTP interface."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from controller.contracts.administration import ADMINISTRATION, Count, SweepStatus
from controller.contracts.annotations import AnnotationChange, SweepAnnotations
from controller.contracts.base import Contract
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import FarmRestarting, FarmSilent, FarmUnavailable, UserError
from controller.contracts.sweep import Sweep
from controller.contracts.wire import RunEvent, Submission
from controller.platform.peers import check_peer
from controller.platform.terminal import say
from controller.runtime.addresses import web_address
from controller.runtime.health import ANSWER_S, RESTARTED, is_hopeless, why_away, why_silent
from controller.runtime.home import Home
from controller.runtime.options import URL_VARIABLE
from controller.runtime.up_command import anew

MAX_ANSWER_BYTES: Final = 2**23
Answer = TypeVar("Answer", bound=Contract)

TOKEN_VARIABLE: Final = "BENCHFARM_TOKEN"
"""A submitter's own token."""
QUIET_S: Final = 45.0
"""Longest silence of a stream of events, which has a sign of life every 15 s."""
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Failures before a request is sent."""
LOOK_FIRST: Final = "Look at what is stored before you repeat it."


class MaybeDone(FarmUnavailable):
    """A lost answer to a request that may have been carried out, and is not to be repeated
    blindly."""


@dataclass(frozen=True, slots=True)
class Timings:
    """How long a client waits for the controller, in seconds."""

    restart_s: float = 60.0
    """For one that is being restarted."""
    retry_s: float = 0.5
    """Between two tries meanwhile."""
    answer_s: float = ANSWER_S
    """For the answer of one on this host: it may be stopped or stuck."""
    reply_s: float = 30.0
    """For the reply to a request that was sent."""
    quiet_s: float = QUIET_S
    """For the next sign of life of a stream of events."""


TIMINGS: Final = Timings()


@dataclass(slots=True)
class Patience:
    """A limited wait for a restarting controller, printed once."""

    where: str
    home: Home | None = None
    """The farm's home, if it is on this host: a farm that nobody restarts is not waited for."""
    timings: Timings = TIMINGS
    ends: float = field(init=False)
    told: bool = False

    def __post_init__(self) -> None:
        self.ends = time.monotonic() + self.timings.restart_s

    def wait(self, error: FarmUnavailable) -> None:
        """Sleep before the next try; raises the error once it has taken too long."""
        why = (why_away(self.home) if self.home else "") or _why_silent(error)
        if self.home and is_hopeless(self.home):
            raise FarmUnavailable(error.tried, why, "Run `benchfarm up`.") from error
        if time.monotonic() >= self.ends:
            raise error
        if not self.told:
            limit_s = self.timings.restart_s
            waiting = f"waiting up to {limit_s:.0f} s for the controller {self.where}"
            say(f"{waiting}; {why}" if why else waiting, err=True)
            self.told = True
        time.sleep(self.timings.retry_s)


class FarmClient:
    """Client of a home's controller; finds it again after a restart."""

    def __init__(
        self, home: Home, environ: Mapping[str, str] = os.environ, timings: Timings = TIMINGS
    ) -> None:
        self._home = home
        self._environ = environ
        self.timings = timings

    @property
    def is_elsewhere(self) -> bool:
        """Whether the controller is not this home's, so that the home's store is not its store."""
        return bool(self._environ.get(URL_VARIABLE))

    def patience(self) -> Patience:
        """Return a new wait for this controller."""
        return Patience(self._where, None if self.is_elsewhere else self._home, self.timings)

    def submit(self, sweep: Sweep, *, again: bool = False) -> Submission:
        """Submit a sweep; raises the controller's UserError. Safe to repeat, unless `again`."""
        body = {"sweep": sweep.model_dump(mode="json"), "again": again}
        return self._post(Submission, "/v1/sweeps", body, repeat=not again)

    def cancel(self, sweep_id: str) -> int:
        """Cancel a sweep; return the number of cancelled runs."""
        return self._post(Count, f"{_sweep(sweep_id)}/cancel", {}, repeat=True).runs

    def resume(self, sweep_id: str) -> int:
        """Queue a sweep's failed and cancelled runs again; return their number."""
        return self._post(Count, f"{_sweep(sweep_id)}/resume", {}, repeat=False).runs

    def annotate(self, sweep_id: str, change: AnnotationChange) -> SweepAnnotations:
        """Change a sweep's tags or notes; return what it has now."""
        path, body = f"{_sweep(sweep_id)}/{change.PATH}", change.model_dump(mode="json")
        return self._post(SweepAnnotations, path, body, repeat=False)

    def sweep_status(self, sweep_id: str) -> SweepStatus:
        """Return the status of a sweep."""
        return self._get(SweepStatus, _sweep(sweep_id))

    def administer(self, kind: type[Answer], path: str, body: Contract | None = None) -> Answer:
        """Post a body to an administrator's route, or get the route without one."""
        full = ADMINISTRATION + path
        if body is not None:
            return self._post(kind, full, body.model_dump(mode="json"), repeat=False)
        return self._get(kind, full)

    @contextmanager
    def events(self, sweep_id: str) -> Iterator[Iterator[RunEvent]]:
        """Watch a sweep; see `beats`."""
        with self.beats(sweep_id) as beats:
            yield (event for event in beats if event)

    @contextmanager
    def beats(self, sweep_id: str) -> Iterator[Iterator[RunEvent | None]]:
        """Watch a sweep; no event after entering is missed. Yields None now and then without one.

        The iterator ends if the controller goes away or is silent. Raises the controller's
        UserError, FarmUnavailable.
        """
        with ExitStack() as stack:
            try:
                client = stack.enter_context(self._connect(read_timeout=self.timings.quiet_s))
                path = f"{_sweep(sweep_id)}/events"
                response = stack.enter_context(client.stream("GET", path))
                if response.status_code != httpx.codes.OK:
                    raise _refused(_read(response))
            except httpx.TransportError as error:
                raise self._away(error) from error
            yield _beats_of(response)

    def _get(self, kind: type[Answer], path: str) -> Answer:
        try:
            return _answer(kind, self._ask("GET", path))
        except httpx.TransportError as error:
            raise self._away(error) from error

    def _post(self, kind: type[Answer], path: str, body: dict[str, Any], *, repeat: bool) -> Answer:
        patience = self.patience()
        while True:
            try:
                return _answer(kind, self._ask("POST", path, body))
            except (FarmRestarting, FarmSilent) as error:  # so nothing was sent
                patience.wait(error)
            except httpx.TransportError as error:
                if not repeat:
                    raise self._lost(error) from error
                patience.wait(self._away(error))

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        with (
            self._connect(read_timeout=self.timings.reply_s) as client,
            client.stream(method, path, json=body) as response,
        ):
            return _read(response)

    @property
    def _where(self) -> str:
        url = self._environ.get(URL_VARIABLE)
        return f"at {url}" if url else f"of {self._home.path}"

    def _away(self, error: httpx.TransportError) -> FarmUnavailable:
        elsewhere = f"Check that {URL_VARIABLE} leads to it: the ssh tunnel, the port."
        return FarmUnavailable(
            f"call the controller {self._where}",
            str(error) or type(error).__name__,
            elsewhere
            if self.is_elsewhere
            else "Run `benchfarm up`, which starts it if it is down.",
        )

    def _lost(self, error: httpx.TransportError) -> FarmUnavailable:
        """Return the error of a request that must not be repeated blindly once it was sent."""
        away = self._away(error)
        if isinstance(error, NOT_SENT):
            return away
        return maybe_done(away.tried, away.seen)

    def _connect(self, read_timeout: float) -> httpx.Client:
        given = self._environ.get(URL_VARIABLE)
        url = web_address(f"use {URL_VARIABLE}={given}", given) if given else self._own_url()
        return httpx.Client(
            base_url=url,
            headers={
                "Authorization": f"Bearer {self._token()}",
                "Accept-Encoding": "identity",
            },
            timeout=httpx.Timeout(10.0, read=read_timeout),
            trust_env=False,
            event_hooks={} if given else {"request": [_check_peer_of]},
        )

    def _own_url(self) -> str:
        """Return the URL of this home's controller.

        Raises FarmRestarting, FarmSilent, FarmUnavailable.
        """
        try:
            url = self._home.endpoint().url
        except FarmUnavailable:
            self._require_whole()
            raise
        self._require_whole()  # the remains of a farm may answer without doing anything
        if why := why_silent(self._home, self.timings.answer_s):
            remedy = f"Wait, or start the farm anew: run {anew(self._home)}."
            raise FarmSilent(f"call the controller {self._where}", why, remedy)
        return url

    def _require_whole(self) -> None:
        tried, why = f"call the controller {self._where}", why_away(self._home)
        if why.startswith(RESTARTED):
            remedy = f"Wait, or see {self._home.logs / 'supervisor.log'}."
            raise FarmRestarting(tried, why, remedy)
        if is_hopeless(self._home):
            raise FarmUnavailable(tried, why, "Run `benchfarm up`.")

    def _token(self) -> str:
        if given := self._environ.get(TOKEN_VARIABLE, "").strip():
            if not given.isascii() or not given.isprintable() or " " in given:
                remedy = "Set it to the token as it was printed."
                raise UserError(f"read {TOKEN_VARIABLE}", "it is not one token", remedy)
            return given
        if self.is_elsewhere:  # this home's token must not go to another controller
            raise UserError(
                f"call the controller {self._where}",
                f"{TOKEN_VARIABLE} is not set",
                "Set it to the token that the administrator made for you.",
            )
        return self._home.read_token(self._home.api_token)


def _check_peer_of(request: httpx.Request) -> None:
    request.extensions["trace"] = check_peer


def _why_silent(error: FarmUnavailable) -> str:
    return error.seen if isinstance(error, FarmSilent) else ""


def _sweep(sweep_id: str) -> str:
    return f"/v1/sweeps/{quote(sweep_id, safe='')}"


def _beats_of(response: httpx.Response) -> Iterator[RunEvent | None]:
    try:
        for line in _lines_of(response):
            yield RunEvent.model_validate_json(line) if line else None
    except httpx.TransportError:
        return
    except ValidationError as error:
        raise _stranger(response, "its answer is not a controller's") from error


def _lines_of(response: httpx.Response) -> Iterator[bytes]:
    begun = b""
    for chunk in response.iter_raw():
        *lines, begun = (begun + chunk).split(b"\n")
        yield from lines
        if len(begun) > MAX_ANSWER_BYTES:
            raise _stranger(response, "its answer is not a controller's")


def _read(response: httpx.Response) -> httpx.Response:
    """Return the whole response; raises UserError for one too long to be a controller's."""
    content = joined(response.iter_raw(), MAX_ANSWER_BYTES)
    if content is None:
        raise _stranger(response, f"its answer is longer than {MAX_ANSWER_BYTES >> 20} MiB")
    return httpx.Response(response.status_code, content=content, request=response.request)


def maybe_done(tried: str, said: str) -> MaybeDone:
    """Return the error of a request that was sent, and then not answered; said: why."""
    seen = f"no answer came, but the request may have been carried out ({said})"
    return MaybeDone(tried, seen, LOOK_FIRST)


def joined(chunks: Iterable[bytes], most: int) -> bytes | None:
    """Return the chunks of an answer as one; None if they are more than so many bytes."""
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > most:
            return None
    return bytes(content)


def _answer(kind: type[Answer], response: httpx.Response) -> Answer:
    if response.status_code != httpx.codes.OK:
        raise _refused(response)
    try:
        return kind.model_validate_json(response.content)
    except ValidationError as error:
        raise _stranger(response, "its answer is not a controller's") from error


def _refused(response: httpx.Response) -> UserError:
    """Return the controller's error, or one for another response that is not a success."""
    status = f"it answered with status {response.status_code}"
    with suppress(ValidationError):
        return ErrorPayload.model_validate_json(response.content).error()
    if response.is_server_error:
        remedy = "See its log; `benchfarm up` prints where it is."
        return FarmUnavailable(f"call the controller at {response.url}", status, remedy)
    return _stranger(response, status)


def _stranger(response: httpx.Response, seen: str) -> UserError:
    remedy = f"Check {URL_VARIABLE}: what listens there is not a controller of this release."
    return UserError(f"call the controller at {response.url}", seen, remedy)
