"""The client of the API, for a farm elsewhere."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import ValidationError

from controller.api.answers import DeviceNow, DevicePage, Page, ResultPage, SweepPage
from controller.api.contexts import FarmContext
from controller.api.problems import Problem
from controller.api.queries import MOST_ITEMS
from controller.api.routes import PREFIX
from controller.contracts.base import Contract
from controller.contracts.errors import FarmUnavailable, UserError
from controller.contracts.records import StoredResult, SweepRecord

MAX_ANSWER_BYTES: Final = 2**28
CONNECT_S: Final = 10.0
ANSWER_S: Final = 60.0
Item = TypeVar("Item", bound=Contract)
Params = Mapping[str, str]


class ApiClient:
    """Reads a farm over its API."""

    def __init__(self, context: FarmContext) -> None:
        self._context = context

    def check(self) -> None:
        """Raise UserError unless the token is valid."""
        self._get(f"{PREFIX}/sweeps", {"limit": "1"})

    def sweeps(self) -> list[SweepRecord]:
        """Return all sweeps, oldest first; raises UserError."""
        return [*self._items(SweepPage, "/sweeps", {})]

    def devices(self) -> list[DeviceNow]:
        """Return all devices with their states now; raises UserError."""
        return [*self._items(DevicePage, "/devices", {})]

    def results(self, params: Params, newest: int | None = None) -> list[StoredResult]:
        """Return the results that parameters of the route keep, oldest first; raises UserError.

        newest: at most so many; None for all.
        """
        if newest is None:
            return [*self._items(ResultPage, "/results", {**params, "sort": "stored"})]
        found = self._items(ResultPage, "/results", {**params, "sort": "-stored"})
        return [result for _, result in zip(range(newest), found, strict=False)][::-1]

    def _items(self, kind: type[Page[Item]], path: str, params: Params) -> Iterator[Item]:
        cursor: str | None = None
        while True:
            asked = {"limit": str(MOST_ITEMS), **params, **({"cursor": cursor} if cursor else {})}
            answer = self._get(f"{PREFIX}{path}", asked)
            try:
                page = kind.model_validate_json(answer)
            except ValidationError as error:
                raise self._stranger("its answer is not one of this release") from error
            yield from page.items
            if page.next is None:
                return
            cursor = page.next

    def _get(self, path: str, params: Params) -> bytes:
        try:
            with (
                self._connect() as client,
                client.stream("GET", path, params=dict(params)) as response,
            ):
                content = b""
                for chunk in response.iter_raw():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise self._stranger(f"its answer is longer than {MAX_ANSWER_BYTES} bytes")
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self._away(error) from error
        if response.status_code != httpx.codes.OK:
            raise self._refused(response.status_code, content)
        return content

    def _connect(self) -> httpx.Client:
        return httpx.Client(
            base_url=self._context.url,
            headers={
                "Authorization": f"Bearer {self._context.token}",
                "Accept-Encoding": "identity",
            },
            verify=self._context.trust(),
            timeout=httpx.Timeout(CONNECT_S, read=ANSWER_S),
            trust_env=False,
        )

    def _refused(self, status: int, content: bytes) -> UserError:
        try:
            said = Problem.model_validate_json(content)
        except ValidationError:
            return self._stranger(f"it answered with status {status}")
        seen = said.detail
        if status == httpx.codes.UNAUTHORIZED:
            return UserError(self._tried, seen, "Run `benchfarm login` with a token that is valid.")
        return UserError(self._tried, seen, said.remedy)

    @property
    def _tried(self) -> str:
        return f"ask the farm at {self._context.url}"

    def _away(self, error: Exception) -> FarmUnavailable:
        said = str(error) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in said:
            seen = "its certificate is not the one that `benchfarm login` was shown"
            if "has expired" in said:
                seen = "its certificate has expired"
            remedy = "Ask the administrator for the fingerprint, then run `benchfarm login` again."
            return FarmUnavailable(self._tried, seen, remedy)
        return FarmUnavailable(self._tried, said, "Check the address, and that it is served.")

    def _stranger(self, seen: str) -> UserError:
        remedy = "Check that `benchfarm api serve` of this release listens there."
        return UserError(self._tried, seen, remedy)


def certificate_of(url: str) -> str:
    """Return the certificate of a server, PEM, whoever it is; raises FarmUnavailable."""
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as connection,
        ):
            shown = connection.getpeercert(binary_form=True)
    except (OSError, UnicodeError) as error:  # the latter of a host that can be none
        seen = getattr(error, "strerror", None) or str(error)
        remedy = "Check the address, and that it is served."
        raise FarmUnavailable(f"connect to {url}", seen, remedy) from error
    return ssl.DER_cert_to_PEM_cert(shown or b"")
