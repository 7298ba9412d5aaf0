"""The farm that a call is about: this home's, or over the API the one of a context."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controller.cli.common import context_elsewhere, home
from controller.contracts.device import RegisteredAgent
from controller.platform.terminal import say
from controller.runtime.fleet import Where, wrong_clocks
from controller.runtime.health import trouble_of
from controller.runtime.home import Home

if TYPE_CHECKING:
    from controller.cli.elsewhere import FarmElsewhere
    from controller.runtime.client import FarmClient


def elsewhere() -> FarmElsewhere | None:
    """Return the farm of the context that is meant, None if none is; raises UserError."""
    name = context_elsewhere()
    if name is None:
        return None
    # Late: a client of HTTP, which lists of this host need not.
    from controller.cli.elsewhere import FarmElsewhere

    return FarmElsewhere(name)


def where() -> Where:
    """Return the home whose farm is meant, or what the farm of a context says of itself."""
    other = elsewhere()
    return home() if other is None else other.host().farm()


def farm_client() -> FarmClient:
    """Return the client of the controller that is meant: this home's, or a context's."""
    if other := elsewhere():
        return other.controller()
    # Late, as above.
    from controller.runtime.client import FarmClient

    return FarmClient(home())


def warn_if_away() -> None:
    """Say on standard error, in a line, that the farm that is meant can't answer now, and why.

    After `benchfarm down` there is nothing to warn of.
    """
    now = where()
    if trouble := trouble_of(now) if isinstance(now, Home) else now.trouble:
        say(f"benchfarm: {trouble}", err=True)


def warn_of_clocks(agents: Iterable[RegisteredAgent]) -> None:
    """Say on standard error which hosts' clocks are far off, in a line each."""
    for line in wrong_clocks(agents):
        say(line, err=True)
