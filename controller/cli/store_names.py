"""Values that this home's store knows, or the farm of a context, for completion.

Each function is given the parameters so far, and the beginning of the value. The store is only
read, whether or not a farm is up: it has all that a farm has been told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from controller.cli.signatures import Given
from controller.contracts.device import DeviceKind
from controller.contracts.errors import UserError
from controller.runtime.home import Home
from controller.runtime.options import CONTEXT_VARIABLE, URL_VARIABLE
from controller.runtime.suite_sessions import session_ids
from controller.store.protocol import StoreReader
from controller.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from controller.api.brief_reader import BriefReader

MOST_RUNS: Final = 100
"""That are offered."""


def devices(_: Given, __: str) -> list[str]:
    """Return the ids and names of all devices."""
    with _reading() as store:
        known = store.fleet()[1]
    names = [device.life.name for device in known if device.life.name]
    return [*names, *(device.device.id for device in known)]


def phones(_: Given, __: str) -> list[str]:
    """Return those of the devices that are phones."""
    with _reading() as store:
        found = [known.device for known in store.fleet()[1]]
    return [device.id for device in found if device.kind is DeviceKind.ANDROID]


def agents(_: Given, __: str) -> list[str]:
    """Return all agents that ever registered; there is one a host."""
    with _reading() as store:
        return [known.agent.id for known in store.fleet()[0]]


def hosts(_: Given, __: str) -> list[str]:
    """Return the hosts of all agents, and the agents."""
    with _reading() as store:
        known = [registered.agent for registered in store.fleet()[0]]
    return [*dict.fromkeys(word for agent in known for word in (agent.host, agent.id))]


def sweeps(_: Given, __: str) -> list[str]:
    """Return all sweeps, newest first."""
    with _reading() as store:
        return [record.sweep_id for record in reversed(store.sweeps())]


def suite_sessions(_: Given, __: str) -> list[str]:
    """Return the sessions of the mobile suite, newest first."""
    with _reading() as store:
        return session_ids(store)[::-1]


def tags(_: Given, __: str) -> list[str]:
    """Return the tags of all sweeps."""
    with _reading() as store:
        return sorted({tag for one in store.annotations().values() for tag in one.tags})


def subjects(given: Given, incomplete: str) -> list[str]:
    """Return what a report can be about: sweeps, and devices to compare."""
    return [*sweeps(given, incomplete), *devices(given, incomplete)]


def users(_: Given, __: str) -> list[str]:
    """Return the users who have a token."""
    with _reading() as store:
        return [token.name for token in store.tokens() if token.revoked_at is None]


def runs(_: Given, incomplete: str) -> list[str]:
    """Return runs that begin with what is typed."""
    with _reading() as store:
        return store.runs_beginning(incomplete, MOST_RUNS)


@contextmanager
def _reading() -> Iterator[StoreReader | BriefReader]:
    """Give what is stored to read: this home's, or of the farm of a context a page of each list.

    What of it is damaged is left out. Raises NotFound, UserError, FarmUnavailable.
    """
    if url := os.environ.get(URL_VARIABLE):
        remedy = "Run this on the head."
        raise UserError("complete names", f"{URL_VARIABLE} names the farm at {url}", remedy)
    if name := os.environ.get(CONTEXT_VARIABLE):
        # Late: a client of HTTP, which takes long to load.
        from controller.cli.elsewhere import FarmElsewhere

        with closing(FarmElsewhere(name).brief()) as farm:
            yield farm
        return
    with closing(SqliteStore.open_reader(Home.from_environment().store, lambda _: None)) as store:
        yield store
