"""The `benchfarm` command. Nouns are groups, one module each, imported when one of its verbs is
called: importing this loads neither them nor ray nor torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from typer.completion import get_completion_inspect_parameters

from controller.cli.commands import commands
from controller.cli.lazy import LazyGroup
from controller.platform.interrupted import INTERRUPTED, none_swallowed
from controller.platform.programs import PYTHON, PYTHON_MODES, this_program
from controller.platform.terminal import (
    LONGEST,
    make_visible,
    open_missing_streams,
    output_is_lost,
    say,
)

ENCODING: Final = "PYTHONIOENCODING"
"""Variable by which a user sets the encoding of Python's streams, whatever else does."""
COMPLETE: Final = "_BENCHFARM_COMPLETE"
"""Variable by which a shell's completion script asks for completions, as typer names it."""


class _Benchfarm(LazyGroup):
    """All groups, and the verbs that have none."""

    def __init__(self, **attrs: Any) -> None:  # noqa: ANN401 - what typer passes on
        super().__init__(**(attrs | {"commands": commands()}))


app = typer.Typer(
    name="benchfarm",
    help="Run AI workload sweeps on a fleet of servers and phones; see which is best, and why.",
    cls=_Benchfarm,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,  # help is there at once: rich takes longer to load than all else
)


def _say_version(asked: bool) -> None:
    if asked:
        # Late: the metadata of packages takes longer to read than help to print.
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


def _complain(error: typer.TyperException) -> None:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else _called(sys.argv[1:])
    _reword(error)
    said = " ".join(error.format_message().split())
    say(f"benchfarm: {said.rstrip('.')}; see: {command} --help", err=True)


def _called(words: Sequence[str]) -> str:
    """Return the command that a call names, of which the parser of options does not tell."""
    called = "benchfarm"
    known: Mapping[str, object] = commands()
    for word in words:
        if word not in known:
            break
        called, found = f"{called} {word}", known[word]
        known = found.commands if isinstance(found, LazyGroup) else {}
    return called


def _reword(error: typer.TyperException) -> None:
    """Replace pydantic's words in the complaint about an option's value."""
    if error.__cause__ is None:
        return
    # Late: pydantic takes longer to load than help to print.
    from controller.contracts.wording import complaint_about

    error.message = complaint_about(error.__cause__) or getattr(error, "message", "")


def _require_text(arguments: Sequence[str]) -> None:
    """Raise UserError for bytes that are no text: no id, word or JSON can hold them."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            # Late: pydantic takes longer to load than help to print.
            from controller.contracts.errors import UserError

            remedy = "Write it in UTF-8; rename a file if need be."
            said = ascii(os.fsencode(argument)[:LONGEST])
            raise UserError(f"use argument {said}", "it is not UTF-8", remedy) from None


def _in_utf8() -> None:
    """Begin again where locale or environment have another encoding: it can't write all that files
    hold."""
    asked = os.environ.get(ENCODING, "").partition(":")[0].lower()
    if sys.getfilesystemencoding() != "utf-8" or asked not in ("", "utf-8", "utf8"):
        environ = {name: value for name, value in os.environ.items() if name != ENCODING}
        os.execve(PYTHON, this_program(), {**environ, **PYTHON_MODES})


def main() -> None:
    """Run the command line; the user's own mistakes are one line and exit status 2."""
    open_missing_streams()
    _in_utf8()
    make_visible()
    if COMPLETE in os.environ:
        get_completion_inspect_parameters()  # the public way to have typer know its shells
    try:
        _require_text(sys.argv[1:])
        with none_swallowed():
            status = app(prog_name="benchfarm", standalone_mode=False) or 0
        if status == INTERRUPTED:
            say("benchfarm: interrupted", err=True)
        sys.exit(status)
    except typer.Abort:  # ^C or ^D at a prompt
        say("benchfarm: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except typer.TyperException as error:
        _complain(error)
        sys.exit(error.exit_code)
    except Exception as error:
        # Late, as above.
        from controller.contracts.errors import BenchfarmError, StoreDamaged, UserError

        if isinstance(error, OSError) and output_is_lost():
            seen, remedy = error.strerror or str(error), "Send it where there is room."
            error = UserError("write standard output", seen, remedy)
        if not isinstance(error, BenchfarmError):
            raise
        say(f"benchfarm: {error}", err=True)
        sys.exit(2 if isinstance(error, UserError | StoreDamaged) else 1)


if __name__ == "__main__":
    main()
