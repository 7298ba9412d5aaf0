"""`python -m agents.joined HEAD ADDRESS`: the agent of a host that has joined another host's farm.

A separate process on the host's Ray node, restarted by its supervisor; an actor would be bound to a
node that never returns under its name. Options come as a line of JSON on standard input, which
closes when the node is up: until then the agent only prepares. A line of JSON on standard output
reports the registration, or why there is none. SIGTERM drains.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from functools import partial

import ray

from agents.actor import AgentActor, AgentOptions
from controller.contracts.errors import AgentRefused
from controller.contracts.ray_names import NAMESPACE
from controller.platform.programs import away_from_current_folder
from controller.platform.terminal import log_visibly

REFUSED = 2
"""Exit status if the controller refuses this agent, so that a restart is useless."""


def main() -> int:
    """Join the cluster as a driver, and run the agent until SIGTERM."""
    options = AgentOptions(**json.loads(sys.stdin.readline()))
    log_visibly()
    return asyncio.run(_live(options))


async def _connect() -> None:
    """Connect as a driver once this host's node is up."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()
    loop.remove_reader(sys.stdin.fileno())
    head, address = sys.argv[1:]
    join = partial(
        ray.init,
        address=head,
        _node_ip_address=address,
        namespace=NAMESPACE,
        log_to_driver=False,
        logging_level="ERROR",
    )
    with away_from_current_folder():
        await asyncio.to_thread(join)


async def _live(options: AgentOptions) -> int:
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    drain_on_sigterm = partial(loop.add_signal_handler, signal.SIGTERM, leaving.set)
    drain_on_sigterm()

    async def connect() -> None:
        await _connect()
        drain_on_sigterm()  # replaces the handler that Ray has installed

    agent = AgentActor(options, connect, sys.argv[2])
    ready = loop.create_task(agent.ready())
    left = loop.create_task(leaving.wait())
    await asyncio.wait({ready, left}, return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        return 0
    try:
        _say(agent_id=agent.agent_id, revoked=ready.result())
    except AgentRefused as refusal:
        _say(seen=refusal.seen, remedy=refusal.remedy)
        return REFUSED
    await left
    await agent.drain()
    return 0


def _say(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
