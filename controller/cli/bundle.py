"""`benchfarm bundle …`"""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import typer

from controller.platform.programs import python_module

app = typer.Typer(no_args_is_help=True)


@app.command()
def build(
    name: Annotated[
        str, typer.Argument(help="Runtime and architecture, such as litert-arm64-v8a.")
    ] = "litert-x86_64",
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Download packages again, to get updates.")
    ] = False,
) -> None:
    """Build a self-contained bundle, unless it exists.

    Its files come from Debian and PyPI packages. Prints where the bundle is.
    """
    options = ["--refresh"] if refresh else []
    command = python_module("agents.inference.bundle", name, *options)
    sys.exit(subprocess.run(command, check=False).returncode)
