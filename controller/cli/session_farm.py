"""The farm of this host as a session on one device needs it, and the command that continues one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import typer

from controller.cli.common import console, home, reading
from controller.cli.meant import farm_client, where
from controller.cli.progress import show_sweep
from controller.contracts.device import Device, DeviceState
from controller.contracts.errors import NotFound, UserError
from controller.contracts.sweep import Sweep
from controller.platform.interrupted import INTERRUPTED
from controller.platform.terminal import say
from controller.runtime.fleet import DeviceOverview, devices_now
from controller.runtime.suite_runner import SessionRunner, Timer
from controller.scheduling.suite_session import Ended, Session
from controller.store.protocol import FarmReader

AWAY: Final = (DeviceState.OFFLINE, DeviceState.LOST)
"""States of a device that a session waits out for a while: a touched cable or an agent that starts
again brings it back within seconds."""
RETURN_S: Final = 120.0
"""How long a device may stay away before a part."""
UNUSABLE: Final = (*AWAY, DeviceState.UNAUTHORIZED, DeviceState.QUARANTINED)
"""States of a device in which a session is not carried on: nobody knows how long they last."""
LOOK_S: Final = 1.0
"""Between two looks for a device that is away."""
WAITED_FOR: Final = (
    DeviceState.BUSY,
    DeviceState.COOLING,
    DeviceState.RESERVED,
    DeviceState.DRAINED,
)
"""States in which a part waits in the queue."""


@dataclass(frozen=True, slots=True)
class DeviceFarm:
    """The farm of this host, for one session on one device."""

    device: Device
    id: str
    """Of the session, for people."""
    read: Callable[[FarmReader], Session]
    quiet: bool = False
    """Say progress on standard error: standard output has JSON."""

    def session(self) -> Session:
        """See SessionFarm.session."""
        with reading() as store:
            return self.read(store)

    def submit(self, sweep: Sweep) -> None:
        """See SessionFarm.submit."""
        self._require_usable()
        farm_client().submit(sweep)

    def follow(self, sweep_id: str) -> None:
        """See SessionFarm.follow."""
        show_sweep(farm_client(), sweep_id, console(stderr=self.quiet))

    def _require_usable(self) -> None:
        """Say what the device is busy with; raise UserError if nothing runs on it."""
        # Without a farm, nothing brings it back.
        found = self._once_back() if home().cluster() else self._overview()
        seen = f"it is {found.state}" + (f": {found.why}" if found.why else "")
        if found.state in UNUSABLE:
            call = continuing_call(self.session())
            remedy = f"Bring it back, then continue with `{call}`."
            if found.state is DeviceState.QUARANTINED:
                remedy = f"Run `benchfarm device release {self.device.id}`, then `{call}`."
            raise UserError(f"carry on session {self.id} on {self.device.shown}", seen, remedy)
        if found.state in WAITED_FOR:
            said = f"{self.device.shown} is {found.state} ({found.why}); the part waits for it"
            say(said, err=self.quiet)

    def _once_back(self) -> DeviceOverview:
        return once_back(self._overview, Timer(), partial(say, err=self.quiet))

    def _overview(self) -> DeviceOverview:
        with reading() as store:
            known = devices_now(where(), store, store.runs(open_only=True))
        found = next((each for each in known if each.device.id == self.device.id), None)
        if found is None:
            seen = "the farm no longer knows it"
            raise NotFound(f"carry on session {self.id}", seen, f"Bring {self.device.shown} back.")
        return found


def once_back(
    look: Callable[[], DeviceOverview], timer: Timer, tell: Callable[[str], None] = say
) -> DeviceOverview:
    """Return how a device stands, once it is there or has been away for too long."""
    found, until = look(), timer.now() + RETURN_S
    if found.state in AWAY:
        tell(
            f"{found.device.shown} is {found.state} ({found.why}); waiting {RETURN_S:.0f} s for it"
        )
    while found.state in AWAY and timer.now() < until:
        timer.sleep(LOOK_S)
        found = look()
    return found


def carry_on(runner: SessionRunner) -> Ended:
    """Carry a session to its end; on ^C, say how to go on."""
    try:
        return runner.run()
    except KeyboardInterrupt:
        say(err=True)
        call = continuing_call(runner.farm.session())
        say(f"a part under way goes on; continue the session with: {call}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def continuing_call(session: Session) -> str:
    """Return the command that continues the session, or begins one of which nothing has run."""
    words = sys.argv[1:]
    if session.runs:
        words = [word for word in words if word != "--again"]  # it would begin another
    return shlex.join(["benchfarm", *words])
