"""Airplane mode over adb (from Android 11), undone if it cuts off the connection to the phone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from agents.remotes.remote import Completed, RemoteFault
from controller.platform.processes import ATTEMPT_MARKER

ASK_S = 20.0
SETTLE_S = 5.0
"""Seconds after which a radio that was turned off is silent."""
GUARD_S = 30
"""Seconds after which the phone leaves airplane mode unless it is told that the agent still reaches
it."""
_GUARD = """
: >"$1" || exit
n=0
while [ -e "$1" ]; do
  if [ "$n" -ge "$2" ]; then
    cmd connectivity airplane-mode disable
    rm -f "$1"
    exit
  fi
  n=$((n + 1))
  sleep 1
done
"""
"""Runs in a session of its own, so that it goes on when the connection and adb's shell are gone."""
_TURN_ON = f"""
mkdir -p "${{1%/*}}" || exit
unset {ATTEMPT_MARKER}
setsid sh -c "$2" benchfarm-guard "$1" "$3" </dev/null >/dev/null 2>&1 &
tries=0
until [ -e "$1" ]; do
  tries=$((tries + 1))
  if [ "$tries" -gt 50 ]; then echo "nothing would turn it off again: no setsid" >&2; exit 9; fi
  sleep 0.1
done
exec cmd connectivity airplane-mode enable
"""


class RunsCommands(Protocol):
    """The part of Remote that runs commands on a phone."""

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        """See Remote.run."""
        ...


@dataclass(frozen=True, slots=True)
class AirplaneMode:
    """The airplane mode of one phone."""

    remote: RunsCommands
    folder: PurePosixPath
    """Folder for benchfarm's files on the phone."""
    networked: bool
    """Whether the phone is connected over a network."""
    settle_s: float = SETTLE_S
    guard_s: int = GUARD_S

    async def turn(self, *, on: bool) -> Completed:
        """Turn airplane mode on or off; raises RemoteFault if the phone doesn't answer
        afterwards."""
        if on and self.networked:
            return await self._turn_on_guarded()
        verb = "enable" if on else "disable"
        return await self.remote.run(("cmd", "connectivity", "airplane-mode", verb), ASK_S)

    async def _turn_on_guarded(self) -> Completed:
        guard = str(self.folder / "airplane-mode-guard")
        arguments = ("benchfarm", guard, _GUARD, str(self.guard_s))
        try:
            done = await self.remote.run(("sh", "-c", _TURN_ON, *arguments), ASK_S)
            await asyncio.sleep(self.settle_s)
            await self.remote.run(("rm", "-f", guard), ASK_S)
        except RemoteFault as fault:
            message = f"airplane mode cut it off; it turns that off by itself in {self.guard_s} s"
            raise RemoteFault(fault.place, fault.kind, f"{fault.message}; {message}") from fault
        return done
