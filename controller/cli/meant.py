"""The farm that a call is about: this home's, or over the API the one of a context."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from controller.cli.common import context_elsewhere, home
from controller.platform.terminal import say
from controller.runtime.fleet import Where
from controller.runtime.health import trouble_of
from controller.runtime.home import Home

if TYPE_CHECKING:
    from controller.runtime.client import FarmClient


def where() -> Where:
    """Return the home whose farm is meant, or what the farm of a context says of itself."""
    if name := context_elsewhere():
        # Late: a client of HTTP, which lists of this host need not.
        from controller.cli.elsewhere import client_of

        return client_of(name).farm()
    return home()


def farm_client() -> FarmClient:
    """Return the client of the controller that is meant: this home's, or a context's."""
    # Late, as above.
    from controller.runtime.client import FarmClient

    if name := context_elsewhere():
        # Late, as above.
        from controller.cli.elsewhere import farm_client_of

        return farm_client_of(name)
    return FarmClient(home())


def stored_files() -> Mapping[str, Collection[str]]:
    """Return what is in the store of models of each online host of the farm that is meant."""
    if name := context_elsewhere():
        # Late, as above.
        from controller.cli.elsewhere import client_of

        return client_of(name).files().files
    # Late, as above.
    from controller.runtime.stored_files import stored_files_now

    return stored_files_now(home())


def warn_if_away() -> None:
    """Say on standard error, in a line, that the farm that is meant can't answer now, and why.

    After `benchfarm down` there is nothing to warn of.
    """
    now = where()
    if trouble := trouble_of(now) if isinstance(now, Home) else now.trouble:
        say(f"benchfarm: {trouble}", err=True)
