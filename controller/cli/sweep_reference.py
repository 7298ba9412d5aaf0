"""What users type for a sweep, found in this home's store or asked of the farm."""

from __future__ import annotations

from controller.cli.common import context_elsewhere, farm_elsewhere, home, reading
from controller.cli.meant import farm_client
from controller.cli.references import record_of
from controller.contracts.errors import NotFound
from controller.platform.terminal import say
from controller.runtime.health import is_hopeless


def sweep_id_of(given: str) -> str:
    """Return the id of the sweep that is meant, here or on the farm elsewhere.

    Raises NotFound, NotAllowed, UserError if several may be.
    """
    if farm_elsewhere():
        found = farm_client().sweep_status(given).sweep_id
        if found != given:
            say(f"sweep {given} is {found}", err=True)
        return found
    if not (context_elsewhere() or home().has_store()):
        return given  # the client says that there is no farm
    with reading() as store:
        try:
            return record_of(store, given).sweep_id
        except NotFound:
            if context_elsewhere() or not (store.damage() or is_hopeless(home())):
                raise
            return given  # the client says that the farm has ended, or the controller knows more
