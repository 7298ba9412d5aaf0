"""`benchfarm bundle …`"""

from __future__ import annotations

from typing import Annotated

import typer

from controller.contracts.bundle import BuiltBundle, BundleRequest
from controller.platform.helper import Helper
from controller.platform.programs import python_module
from controller.platform.terminal import say

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
    helper = Helper(python_module("agents.inference.bundle"), f"build bundle {name}")
    built = helper.ask(BundleRequest(name=name, refresh=refresh), BuiltBundle)
    say(f"{built.name}: {built.archive}, {built.archive_bytes / 2**20:.0f} MiB")
