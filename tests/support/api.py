"""The API as it is really served, over a store that a test has filled."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx
import jsonschema

from controller.api.description import description
from controller.api.options import ApiOptions
from controller.api.rates import Rate
from controller.api.routes import PREFIX
from controller.api.server import serve_api
from controller.contracts.records import Scope, Token
from controller.metrics.exporter import LOOPBACK
from controller.platform.atomic import write_private
from controller.runtime.addresses import Address
from controller.runtime.home import Home
from controller.store.sqlite import SqliteStore
from tests.support.artefacts import fill_artefacts
from tests.support.sample_store import make
from tests.support.store_examples import runs_for, sweep_record
from tests.support.waiting import PATIENCE_S

VERSION: Final = "0.2.0"
RUN: Final = runs_for(sweep_record(generation=2, repeats=12))[0].run_id
"""The run that has artefacts."""
ADMIN_TOKEN: Final = "ad" * 32
SECRETS: Final[Mapping[Scope, str]] = {
    Scope.VIEWER: "5e" * 32,
    Scope.SUBMITTER: "50" * 32,
    Scope.ADMINISTRATOR: "5a" * 32,
}
REVOKED: Final = "4e" * 32
"""The secret of a token that was revoked."""
UNLIMITED: Final = Rate(per_s=1e6, burst=1_000_000)


@dataclass(frozen=True, slots=True)
class Served:
    """An API that listens."""

    url: str
    home: Home
    client: httpx.Client

    def get(
        self,
        path: str,
        scope: Scope | None = Scope.VIEWER,
        **options: Any,  # noqa: ANN401
    ) -> httpx.Response:
        """GET a path below the prefix with the token of a scope, or without one."""
        return self.ask("GET", path, scope, **options)

    def ask(
        self,
        method: str,
        path: str,
        scope: Scope | None,
        headers: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> httpx.Response:
        """Make a request below the prefix."""
        said = {} if scope is None else {"Authorization": f"Bearer {SECRETS[scope]}"}
        address = f"{self.url}{PREFIX}{path}"
        return self.client.request(method, address, headers={**said, **(headers or {})}, **options)

    def every(self, path: str, **params: Any) -> list[Any]:  # noqa: ANN401
        """Return the items of all pages of a list."""
        found: list[Any] = []
        while True:
            page = self.get(path, params=params).raise_for_status().json()
            found += page["items"]
            if page["next"] is None:
                return found
            params["cursor"] = page["next"]


def digest_of(secret: str) -> str:
    """Return what the store has of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def prepared(folder: Path, *, sweeps: int = 4) -> Home:
    """Return a home with a filled store, a token of each scope and the farm's own token."""
    home = Home(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    if sweeps:
        make(home.store, sweeps)
        fill_artefacts(home.artefacts, RUN)
    with closing(SqliteStore.open(home.store)) as store:
        for scope, secret in SECRETS.items():
            token = Token(name=scope, digest=digest_of(secret), created_at=1.0, scope=scope)
            store.save_token(token)
        revoked = Token(name="former", digest=digest_of(REVOKED), created_at=1.0, revoked_at=2.0)
        store.save_token(revoked)
    write_private(home.api_token, ADMIN_TOKEN)
    return home


@contextmanager
def served(home: Home, options: ApiOptions | None = None, scheme: str = "http") -> Iterator[Served]:
    """Serve a home's store on a free port, without limits of rate unless options have them."""
    wanted = options or ApiOptions(LOOPBACK, 0, rate=UNLIMITED, strangers=UNLIMITED)
    started: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, _serve(home, wanted, started))
        port, loop, ended = started.result(PATIENCE_S)
        try:
            with httpx.Client(timeout=PATIENCE_S, verify=False) as client:
                yield Served(f"{scheme}://{Address(wanted.host, port)}", home, client)
        finally:
            loop.call_soon_threadsafe(ended.set)
            running.result(PATIENCE_S)


async def _serve(
    home: Home,
    options: ApiOptions,
    started: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]],
) -> None:
    ended = asyncio.Event()
    try:
        server = await serve_api(home, VERSION, options)
    except BaseException as error:
        started.set_exception(error)
        raise
    try:
        started.set_result((server.address[1], asyncio.get_running_loop(), ended))
        await ended.wait()
    finally:
        await server.cleanup()


@cache
def _document() -> dict[str, Any]:
    """Return the description, made once: not before a test asks, as each process collects them."""
    return description(VERSION)


class Described:
    """The description, which says of an answer whether it is documented."""

    @property
    def document(self) -> dict[str, Any]:
        return _document()

    def objection(self, method: str, route: str, answer: httpx.Response) -> str:
        """Return what is not documented about an answer; "" if all is. route: with `{…}`."""
        operation = self.document["paths"][f"{PREFIX}{route}"][method.lower()]
        said = operation["responses"].get(str(answer.status_code))
        if said is None:
            return f"status {answer.status_code} is not documented"
        for name, header in said.get("headers", {}).items():
            if header.get("required", True) and name not in answer.headers:
                return f"{answer.status_code} has no header {name}"
        kind = answer.headers.get("Content-Type", "").partition(";")[0]
        content = said.get("content", {})
        if not content:
            return f"{answer.status_code} has a body" if answer.content else ""
        if kind not in content:
            return f"{answer.status_code} is {kind}"
        if not kind.endswith("json"):
            return ""
        schema = {**content[kind]["schema"], "components": self.document["components"]}
        faults = jsonschema.Draft202012Validator(schema).iter_errors(answer.json())
        return next((f"{fault.json_path}: {fault.message}" for fault in faults), "")
