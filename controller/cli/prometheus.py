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

app = typer.Typer(no_args_is_help=True)


@app.command()
def config(
    folder: Annotated[Path, typer.Argument(help="Folder to write the files to.")],
    controller: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of the controller. [default: this home's farm]"),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="Token file on Prometheus's host. [default: the farm's own]")
    ] = None,
) -> None:
    """Write prometheus.yml, recording rules and alerts.

    See docs/metrics.md.
    """
    token = token_file or home().metrics_token
    if controller:
        controller = web_address(f"use --controller {controller!r}", controller)
    if not token.is_absolute():
        remedy = "Write an absolute path on Prometheus's host."
        raise UserError(f"use --token-file {token}", "it is a relative path", remedy)
    url = controller or home().endpoint().url
    discovery = http_discovery(url + TARGETS_PATH, token)
    files = prometheus_files(discovery, token, Intervals())
    write_files(folder, files)
    for name in files:
        say(folder / name)
