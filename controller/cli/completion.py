"""`benchfarm completion SHELL`"""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Literal

import typer

from controller.platform.terminal import say

Shell = Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Shell to print it for.")]


def completion(shell: Shell) -> None:
    """Print the completion script of a shell.

    In bash, `source <(benchfarm completion bash)`; README.md has the other shells.
    """
    say((files("controller.cli") / f"completion.{shell}").read_text(), lines=True, end="")
