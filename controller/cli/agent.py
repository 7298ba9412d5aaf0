"""`benchfarm agent …`"""

from __future__ import annotations

import typer

from controller.cli.common import (
    Json,
    Labels,
    MetricsAddress,
    home,
    parse_labels,
    reading,
    show_json,
    show_table,
)

app = typer.Typer(help="The process on each host that measures.", no_args_is_help=True)


@app.command()
def start(label: Labels = None, metrics_address: MetricsAddress = "127.0.0.1") -> None:
    """Start this host's agent on the farm of BENCHFARM_HOME; it registers itself."""
    from controller.runtime.lifetime import start_agent

    agent_id = start_agent(home(), parse_labels(label), metrics_address)
    typer.echo(f"agent {agent_id} has registered")


@app.command("list")
def list_agents(json: Json = False) -> None:
    """List all agents that ever registered."""
    from rich.table import Table

    from controller.runtime.fleet import agents_now

    with reading() as store:
        agents = agents_now(home(), store)
    if json:
        show_json(agents)
        return
    table = Table("agent", "host", "version", "state")
    for known in agents:
        state = "online" if known.online else "offline"
        table.add_row(known.agent.id, known.agent.host, known.agent.version, state)
    show_table(table)
