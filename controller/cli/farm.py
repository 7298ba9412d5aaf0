"""`benchfarm up` and `benchfarm down`."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.common import Labels, home, parse_labels


def up(
    label: Labels = None,
    agent: Annotated[
        bool, typer.Option("--agent/--no-agent", help="Also measure on this host.")
    ] = True,
) -> None:
    """Start a farm on this machine: Ray, the controller, and this host's agent."""
    from controller.runtime.lifetime import bring_up

    labels = parse_labels(label)
    farm = bring_up(home(), labels, with_agent=agent)
    typer.echo(f"farm     {'up' if farm.started else 'was up already'}, home {home().path}")
    typer.echo(
        f"ray      {farm.cluster.ray_address}, jobs and dashboard {farm.cluster.dashboard_url}"
    )
    typer.echo(f"api      {farm.url}")
    typer.echo(f"logs     {home().logs}, {farm.cluster.temp_dir}/session_latest/logs")
    if farm.agent_id:
        typer.echo(f"agent    {farm.agent_id}")
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
