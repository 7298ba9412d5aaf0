"""`benchfarm agent drain` and `undrain`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated
from urllib.parse import quote

import typer

from controller.cli.common import checked
from controller.cli.meant import farm_client
from controller.contracts.administration import Reason
from controller.contracts.base import utc_minute
from controller.contracts.draining import AgentDrain, ChangedDrain
from controller.contracts.errors import FarmUnavailable, UserError
from controller.platform.interrupted import INTERRUPTED
from controller.platform.terminal import say
from controller.runtime.client import FarmClient

Host = Annotated[
    str, typer.Argument(help="Host or agent: its name or id, or the beginning of one.")
]
Why = Annotated[str, typer.Option("--why", help="Reason, shown wherever a run waits for it.")]


def drain(
    host: Host,
    why: Why = "by hand",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until nothing runs on it; Ctrl-C ends the wait.")
    ] = False,
) -> None:
    """Give a host's devices no new runs; current ones finish.

    Holds for devices that are connected later, and over restarts, until `benchfarm agent undrain`.
    """
    client = farm_client()
    found = client.administer(ChangedDrain, _path(host, "drain"), checked(Reason, why=why))
    for line in drain_lines(found):
        say(line)
    if wait:
        wait_until_drained(found.now, partial(_again, client))


def undrain(host: Host, why: Why = "by hand") -> None:
    """Let a drained host take runs again."""
    body = checked(Reason, why=why)
    found = farm_client().administer(ChangedDrain, _path(host, "undrain"), body)
    agent, devices = _named(found.now), _count(len(found.now.devices), "device")
    took = "takes runs again" if found.changed else "was not drained"
    say(f"{agent} {took}; it has {devices}{'' if found.now.online else ', and is offline'}")


def drain_lines(found: ChangedDrain) -> Iterator[str]:
    """Return what is told of a drain that has begun: what still runs, and what will be."""
    now = found.now
    if hold := now.draining:
        since = f"since {utc_minute(hold.since)}, by {hold.who}: {hold.why}"
        state = "drained" if not now.running else "draining"
        already = "" if found.changed else " already"
        yield f"{_named(now)} is{already} {state} {since}"
    devices = _count(len(now.devices), "device")
    again = f"until `benchfarm agent undrain {now.agent_id}`"
    if now.online:
        yield f"its {devices}, and others that are connected later, take no new runs {again}"
    else:
        yield f"it is offline; when it is back, its devices take no runs {again}"
    for run in now.running:
        began = utc_minute(run.since)
        device = f"{run.device_name}{run.likeness}"
        yield f"run {run.run_id} of {run.user} on {device}, since {began}, will finish"
    if not now.running:
        yield "nothing runs on it"
    if found.waiting:
        yield f"{_count(found.waiting, 'queued run')} will wait for the end of the drain"


def wait_until_drained(now: AgentDrain, again: Callable[[AgentDrain], AgentDrain]) -> None:
    """Wait until nothing runs on an agent; raises UserError if its drain is ended meanwhile.

    again: asks for the same agent after a pause. Ctrl-C ends the wait with exit status 130.
    """
    try:
        while now.running:
            left, now = len(now.running), again(now)
            if now.draining is None:
                seen = "a person has ended its drain"
                remedy = f"Run `benchfarm agent drain {now.agent_id} --wait` to begin it again."
                raise UserError(f"wait until nothing runs on {_named(now)}", seen, remedy)
            if 0 < len(now.running) < left:
                say(f"{_count(len(now.running), 'run')} left")
    except KeyboardInterrupt:
        say(err=True)
        say(f"the drain goes on; end it with: benchfarm agent undrain {now.agent_id}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    say(f"{_named(now)} is drained: nothing runs on it")


def _again(client: FarmClient, now: AgentDrain) -> AgentDrain:
    """Ask again, through a restart of the controller; raises FarmUnavailable if it stays away."""
    time.sleep(client.timings.retry_s)
    patience = client.patience()
    while True:
        try:
            return client.administer(AgentDrain, _path(now.agent_id, "drain"))
        except FarmUnavailable as error:
            patience.wait(error)


def _named(now: AgentDrain) -> str:
    return f"agent {now.agent_id} on {now.host}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _path(host: str, verb: str) -> str:
    return f"agents/{quote(host, safe='')}/{verb}"
