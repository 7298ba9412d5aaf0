"""`python -m controller.runtime.head_supervisor`: keeps the farm of BENCHFARM_HOME whole.

Two processes of it run: one supervises the farm, the other waits for the first one's lock, which
the kernel gives it when the first is killed. Neither loads Ray: a third process restarts the farm
as `benchfarm up` does, with the options that `up` has stored.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from controller.contracts.errors import BenchfarmError, FarmUnavailable
from controller.platform.locks import exclusive_in_thread, exclusive_now
from controller.platform.programs import python_module
from controller.platform.terminal import say
from controller.runtime.health import is_listening, is_running, why_away
from controller.runtime.home import Home, Process, read_process
from controller.runtime.supervising import HEAD_SUPERVISOR, IN_FOREGROUND, Supervision, end_of_one

AGAIN = "again"
"""Argument: bring up what is missing, and exit."""
FIRST_PAUSE_S = 0.5
LOOK_S = 3.0
"""Interval of the checks for what no process's end tells."""
SUPERFLUOUS_S = 60.0
"""Pause after a standby that found another one."""
AWAY_S = 15.0
"""How long a controller may be away, since Ray restarts it."""


def main(arguments: Sequence[str]) -> int:
    """Supervise the farm, or bring it up once; return the exit status."""
    home = Home.from_environment()
    if AGAIN in arguments:
        return bring_up_again(home)
    with ExitStack() as held:
        with exclusive_now(home.standby_lock) as taken:
            if not taken:
                return 0  # there are two already
            held.enter_context(exclusive_in_thread(home.supervisor_lock))
        asyncio.run(look_after(home, block=IN_FOREGROUND in arguments))
    return 0


def bring_up_again(home: Home) -> int:
    """Bring up what is missing with the options of `up`; print why that fails, in a line."""
    from controller.runtime.lifetime import bring_up_as_wanted

    try:
        bring_up_as_wanted(home)
    except BenchfarmError as error:
        say(error)
        return 1
    return 0


async def look_after(home: Home, *, block: bool, look_s: float = LOOK_S) -> None:
    """Keep a farm whole until `benchfarm down`, or SIGTERM."""
    supervision = Supervision(_say)
    if block:
        supervision.hear()
    head = _Head(home, supervision, look_s)
    standby = asyncio.create_task(head.keep_standby())
    try:
        await supervision.go_on(head.live_once, FIRST_PAUSE_S)
    finally:
        standby.cancel()
    if block and home.wanted.exists():
        from controller.runtime.lifetime import bring_down

        await asyncio.to_thread(bring_down, home)


def _say(line: str) -> None:
    say(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}")


@dataclass(slots=True)
class _Head:
    home: Home
    supervision: Supervision
    look_s: float
    away_since: float | None = None
    told: str = ""
    """What was missing when it was last said; "" since all was there."""

    async def live_once(self) -> float:
        """Bring up what is missing, wait until something is; return the seconds in between."""
        if missing := self._missing():
            self._tell(missing)
            if not await self._bring_up():
                return 0.0
        self.told = ""
        began = time.monotonic()
        if missing := await self._until_missing():
            self._tell(missing)
        return time.monotonic() - began

    def _tell(self, missing: str) -> None:
        if missing != self.told:
            self.supervision.say(missing)
        self.told = missing

    async def keep_standby(self) -> None:
        """Keep another process waiting to take over; start it again when it ends."""
        while True:
            standby = await asyncio.create_subprocess_exec(*python_module(HEAD_SUPERVISOR))
            superfluous = await standby.wait() == 0
            await asyncio.sleep(SUPERFLUOUS_S if superfluous else self.look_s)

    async def _bring_up(self) -> bool:
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *python_module(HEAD_SUPERVISOR, AGAIN),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        communicated = asyncio.create_task(process.communicate())
        waited_for = {communicated, self.supervision.stop}
        await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        if not communicated.done():  # this is to stop: what was started is ended with the farm
            process.terminate()
        said, _ = await communicated
        if process.returncode == 0:
            self.supervision.say_once("")
            self.supervision.say(f"the farm is whole again after {time.monotonic() - began:.1f} s")
            return True
        why = said.decode(errors="replace").strip() or f"it exited with {process.returncode}"
        self.supervision.say_once(f"the farm cannot be started now: {why}")
        return False

    async def _until_missing(self) -> str:
        """Wait until something is missing; return it, or "" if this is to stop."""
        while not (missing := self._missing()):
            cluster = self.home.cluster()
            await self._end_of_one(cluster.head if cluster else ())
            if self.supervision.stop.done():
                return ""
        return missing

    async def _end_of_one(self, processes: Sequence[Process]) -> None:
        """Wait until one of some processes ends, this is to stop, or look_s have passed."""
        one = asyncio.create_task(end_of_one(process.pid for process in processes))
        await asyncio.wait(
            {one, self.supervision.stop}, timeout=self.look_s, return_when=asyncio.FIRST_COMPLETED
        )
        one.cancel()

    def _missing(self) -> str:
        """Return what the farm lacks; "" if nothing, or after `benchfarm down`."""
        if not self.home.wanted.exists():
            self.supervision.signals.put_nowait(None)
            return ""
        away = why_away(self.home) or self._controller_away()
        return away or self._prometheus_away() or self._api_away()

    def _controller_away(self) -> str:
        try:
            address = self.home.endpoint().address
        except FarmUnavailable:  # Ray has not started it yet
            address = None
        if address is None or is_listening(address):
            self.away_since = None
            return ""
        self.away_since = self.away_since or time.monotonic()
        return f"the controller has been away for {AWAY_S:g} s" if self._for_long() else ""

    def _for_long(self) -> bool:
        return self.away_since is not None and time.monotonic() - self.away_since >= AWAY_S

    def _prometheus_away(self) -> str:
        process = read_process(self.home.prometheus_process)
        return "" if process is None or is_running(process) else "Prometheus ended"

    def _api_away(self) -> str:
        api = self.home.api_process()
        return "" if api is None or is_running(api.process) else "the API ended"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
