"""The `benchfarm` command. Nouns are groups, one file each; importing this loads neither ray nor
torch, and verbs import what they need when they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer._click.exceptions import NoArgsIsHelpError, UsageError

from controller.cli import (
    agent,
    bench,
    bundle,
    compare,
    dashboards,
    demo,
    device,
    farm,
    kernels,
    machine,
    models,
    phone,
    profile,
    prometheus,
    results,
    stacks,
    store,
    sweep,
    token,
)
from controller.cli.common import LONGEST
from controller.platform.interrupted import INTERRUPTED
from controller.platform.terminal import make_visible, say

app = typer.Typer(
    name="benchfarm",
    help="Run AI workload sweeps on a fleet of servers and phones; see which is best, and why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,  # help is there at once: rich takes longer to load than all else
)


def _say_version(asked: bool) -> None:
    if asked:
        from controller.contracts.version import installed_version

        say(f"benchfarm {installed_version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_say_version,
            help="Print the release, which has to be the same on every host of a farm.",
        ),
    ] = False,
) -> None:
    """Have an option besides the verbs."""


app.command("up")(farm.up)
app.command("down")(farm.down)
app.command("demo")(demo.demo)
app.command("compare")(compare.compare)
app.add_typer(agent.app, name="agent")
app.add_typer(device.app, name="device")
app.add_typer(sweep.app, name="sweep")
app.add_typer(results.app, name="results")
app.add_typer(phone.app, name="phone")
app.add_typer(prometheus.app, name="prometheus")
app.add_typer(dashboards.app, name="dashboards")
app.add_typer(bundle.app, name="bundle")
app.add_typer(models.app, name="models")
app.add_typer(stacks.app, name="stacks")
app.add_typer(bench.app, name="bench")
app.add_typer(kernels.app, name="kernels")
app.add_typer(profile.app, name="profile")
app.add_typer(machine.app, name="machine")
app.add_typer(token.app, name="token")
app.add_typer(store.app, name="store")


def _complain(error: UsageError) -> None:
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return
    command = error.ctx.command_path if error.ctx else "benchfarm"
    said = " ".join(error.format_message().split())
    say(f"benchfarm: {said.rstrip('.')}; see: {command} --help", err=True)


def _require_text(arguments: Sequence[str]) -> None:
    """Raise UserError for bytes that are no text: no id, word or JSON can hold them."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            from controller.contracts.errors import UserError

            remedy = "write it in UTF-8; a file may be renamed"
            said = ascii(os.fsencode(argument)[:LONGEST])
            raise UserError(f"argument {said}", "it is not UTF-8", remedy) from None


def main() -> None:
    """Run the command line; the user's own mistakes are one line and exit status 2."""
    make_visible()
    try:
        _require_text(sys.argv[1:])
        status = app(prog_name="benchfarm", standalone_mode=False) or 0
        if status == INTERRUPTED:
            say("benchfarm: interrupted", err=True)
        sys.exit(status)
    except UsageError as error:
        _complain(error)
        sys.exit(error.exit_code)
    except Exception as error:
        from controller.contracts.errors import BenchfarmError, StoreDamaged, UserError

        if not isinstance(error, BenchfarmError):
            raise
        say(f"benchfarm: {error}", err=True)
        sys.exit(2 if isinstance(error, UserError | StoreDamaged) else 1)


if __name__ == "__main__":
    main()
