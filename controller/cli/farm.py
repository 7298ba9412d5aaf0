"""`benchfarm up` and `benchfarm down`."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.common import Labels, MetricsAddress, home, parse_labels


def up(
    label: Labels = None,
    agent: Annotated[
        bool, typer.Option("--agent/--no-agent", help="Also measure on this host.")
    ] = True,
    metrics_address: MetricsAddress = "127.0.0.1",
    api_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the controller, on loopback; 0: a free one.")
    ] = 0,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Also start Prometheus, with rules and alerts.")
    ] = False,
) -> None:
    """Start a farm on this machine: Ray, the controller, and this host's agent."""
    from controller.metrics.prometheus_config import Intervals
    from controller.runtime.lifetime import UpOptions, bring_up
    from controller.runtime.prometheus import find_program, running_beside, start_beside

    if prometheus:
        find_program("prometheus")  # rather a complaint now than half a farm

    options = UpOptions(parse_labels(label), agent, metrics_address, api_port)
    farm = bring_up(home(), options)
    typer.echo(f"farm     {'up' if farm.started else 'was up already'}, home {home().path}")
    typer.echo(
        f"ray      {farm.cluster.ray_address}, jobs and dashboard {farm.cluster.dashboard_url}"
    )
    typer.echo(f"api      {farm.url}")
    typer.echo(f"logs     {home().logs}, {farm.cluster.temp_dir}/session_latest/logs")
    if farm.agent_id:
        typer.echo(f"agent    {farm.agent_id}")
    if prometheus:
        server = running_beside(home()) or start_beside(home(), Intervals()).server
        typer.echo(f"metrics  {server.url}, data {home().prometheus}")
    typer.echo(
        f"ray job submit needs:  export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH={home().ray_token}"
    )


def down() -> None:
    """End this home's farm; open runs stay queued and go on at the next `up`."""
    from controller.runtime.lifetime import bring_down

    ended = bring_down(home())
    if ended is None:
        typer.echo(f"no farm is up in {home().path}")
    else:
        typer.echo(f"farm down, {ended} processes ended")
