"""`benchfarm agent …`"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.table import Table

from controller.cli.agent_drain import drain, undrain
from controller.cli.common import (
    Json,
    Labels,
    MeterCommand,
    MetricsAddress,
    PhonePowerCycle,
    checked,
    home,
    parse_command,
    parse_labels,
    reading,
    show_json,
    show_table,
)
from controller.cli.meant import farm_client, warn_if_away, warn_of_clocks, where
from controller.contracts.administration import Count, Reason
from controller.contracts.base import utc_minute
from controller.contracts.device import RegisteredAgent
from controller.contracts.errors import UserError
from controller.contracts.run import Run
from controller.metrics.exporter import LOOPBACK, listening
from controller.platform.processes import FARM_MARKER
from controller.platform.programs import this_program
from controller.platform.terminal import say
from controller.runtime.addresses import Address, adb_server_address
from controller.runtime.fleet import agent_state, agents_now
from controller.runtime.joining import Joining, instance_of, sole_supervisor, supervise
from controller.runtime.lifetime import start_agent
from controller.runtime.options import RECONNECT_TIMEOUT_S

AgentId = Annotated[str, typer.Argument(help="Agent id; see `benchfarm agent list`.")]
Why = Annotated[str, typer.Option("--why", help="Reason, shown wherever the agent is listed.")]

app = typer.Typer(no_args_is_help=True)


@app.command()
def start(
    head: Annotated[
        str | None,
        typer.Option(
            metavar="IP[:PORT]", help="Address of the head whose farm to join. [default port: 6379]"
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Copy of the head's ray-token; required with --head."),
    ] = None,
    label: Labels = None,
    metrics_address: MetricsAddress = None,
    adb_server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT|SOCKET",
            help="Running adb server whose phones to use; with --head, repeatable.",
        ),
    ] = None,
    cpu: Annotated[
        bool,
        typer.Option(
            "--cpu/--no-cpu", help="Measure on this host's CPU, too; --no-cpu needs --head."
        ),
    ] = True,
    reconnect_timeout: Annotated[
        int,
        typer.Option(
            min=1, metavar="SECONDS", help="Seconds to keep measuring after the head is lost."
        ),
    ] = RECONNECT_TIMEOUT_S,
    phone_power_cycle: PhonePowerCycle = None,
    meter: MeterCommand = None,
) -> None:
    """Start this host's agent.

    Joins the farm of BENCHFARM_HOME or, with --head, the farm of another host. With --head it
    stays in the foreground and restarts Ray's node and the agent when they end; SIGTERM lets
    current runs finish first.
    """
    labels = parse_labels(label)
    command = parse_command("--phone-power-cycle", phone_power_cycle)
    meter_command = parse_command("--meter", meter)
    if head and token_file:
        servers = tuple(adb_server or ())
        join(
            head,
            token_file,
            labels,
            metrics_address,
            servers,
            reconnect_timeout,
            cpu=cpu,
            power_cycle=command,
            meter=meter_command,
        )
        return
    of_joined = {
        "--head": head,
        "--token-file": token_file,
        "--adb-server": adb_server,
        "--no-cpu": not cpu,
    }
    if given := [option for option, value in of_joined.items() if value]:
        lacking = [option for option in ("--head", "--token-file") if option not in given]
        seen = f"{given[0]} needs {' and '.join(lacking)}"
        raise UserError("start the agent", seen, f"Add {' and '.join(lacking)}.")
    started = start_agent(home(), labels, metrics_address or LOOPBACK, command, meter_command)
    say(started.revoked or f"agent {started.id} has registered")


def join(
    head: str,
    token_file: Path,
    labels: dict[str, str],
    metrics_address: str | None,
    adb_servers: tuple[str, ...],
    reconnect_timeout_s: int,
    *,
    cpu: bool,
    power_cycle: tuple[str, ...],
    meter: tuple[str, ...],
) -> None:
    """Be this host's supervisor until SIGTERM."""
    address = Address.parse("--head", head)
    servers = tuple(adb_server_address("--adb-server", server) for server in adb_servers)
    if metrics_address:
        listening(metrics_address).close()
    home().prepare()
    if os.environ.get(FARM_MARKER) != instance_of(home()):
        # So that `benchfarm down` finds the supervisor, too: /proc shows what a process began with.
        os.environ[FARM_MARKER] = instance_of(home())
        again = this_program()
        os.execv(again[0], again)
    joining = Joining(
        address, labels, metrics_address, servers, cpu, reconnect_timeout_s, power_cycle, meter
    )
    with sole_supervisor(home()):
        home().adopt_token(token_file)
        asyncio.run(supervise(home(), joining, say))


@app.command("list")
def list_agents(json: Json = False) -> None:
    """List all agents that ever registered."""
    with reading() as store:
        warn_if_away()
        agents = agents_now(where(), store)
        runs = store.runs(open_only=True) if any(known.draining for known in agents) else []
    warn_of_clocks(agents)
    if json:
        show_json(agents)
        return
    table = Table("agent", "host", "version", "state", "clock ahead")
    for known in agents:
        state = _state_line(known, runs)
        ahead_s = known.clock_ahead_s
        clock = "" if ahead_s is None else f"{ahead_s:.1f} s"
        table.add_row(known.agent.id, known.agent.host, known.agent.version, state, clock)
    show_table(table)


def _state_line(known: RegisteredAgent, runs: Sequence[Run]) -> str:
    if known.revoked:
        return f"revoked by {known.revoked.who}: {known.revoked.why}"
    state = agent_state(known, runs) if known.online else "offline"
    if drain := known.draining:
        since = f"since {utc_minute(drain.since)}, by {drain.who}: {drain.why}"
        return f"{state} {since}" if known.online else f"offline, drained {since}"
    return state


@app.command()
def revoke(agent: AgentId, why: Why = "by hand") -> None:
    """Revoke an agent; its runs are queued again at once.

    The controller refuses everything the agent sends until `benchfarm agent admit`.
    """
    lost = _do(agent, "revoke", why)
    say(f"agent {agent} is revoked; {lost} runs were queued again")


@app.command()
def admit(agent: AgentId) -> None:
    """Let a revoked agent register again.

    An agent that still runs registers within 10 s.
    """
    _do(agent, "admit", "by hand")
    say(f"agent {agent} may register again")


app.command()(drain)
app.command()(undrain)


def _do(agent: str, verb: str, why: str) -> int:
    path = f"agents/{quote(agent, safe='')}/{verb}"
    return farm_client().administer(Count, path, checked(Reason, why=why)).runs
