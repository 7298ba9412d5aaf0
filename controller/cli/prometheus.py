"""`benchfarm prometheus …`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.common import home
from controller.contracts.errors import UserError
from controller.metrics.discovery import TARGETS_PATH
from controller.metrics.prometheus_config import Intervals, http_discovery, prometheus_files
from controller.platform.terminal import say
from controller.runtime.addresses import web_address
from controller.runtime.prometheus import write_files

app = typer.Typer(help="Metrics for a Prometheus of your own.", no_args_is_help=True)


@app.command()
def config(
    folder: Annotated[Path, typer.Argument(help="Where the files are written.")],
    controller: Annotated[
        str | None, typer.Option(metavar="URL", help="Default: the farm that is up.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="As Prometheus will find it; default: the farm's own.")
    ] = None,
) -> None:
    """Write prometheus.yml with recording rules and alerts; see docs/metrics.md."""
    token = token_file or home().metrics_token
    if controller:
        controller = web_address(f"option --controller {controller!r}", controller)
    if not token.is_absolute():
        remedy = "write an absolute path, as it is on Prometheus's host"
        raise UserError(f"option --token-file {token}", "it is a relative path", remedy)
    url = controller or home().endpoint().url
    discovery = http_discovery(url + TARGETS_PATH, token)
    files = prometheus_files(discovery, token, Intervals())
    write_files(folder, files)
    for name in files:
        say(folder / name)
