"""Commands as completion needs them: their parameters, and where values are read from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from keyword import iskeyword
from threading import Thread
from time import process_time
from typing import Annotated, Self

import typer
from typer.core import TyperCommand

from controller.cli.lazy import command_of
from controller.cli.signatures import COMPLETERS, SIGNATURES
from controller.platform.terminal import visible

LIMIT_S = 1.0
"""Seconds to wait for values."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument or an option of a command."""

    names: tuple[str, ...]
    is_flag: bool
    kind: str
    """Of its values; empty if nothing is offered for them."""
    is_repeated: bool

    @classmethod
    def parse(cls, word: str) -> Self:
        """Return the parameter that a word of a signature describes."""
        names, equals, kind = word.partition("=")
        return cls(tuple(names.split("/")), not equals, kind.rstrip("*"), kind.endswith("*"))

    @property
    def is_option(self) -> bool:
        """Whether it has a name on the command line."""
        return self.names[0].startswith("-")

    def as_python(self, arguments: Sequence[str]) -> inspect.Parameter:
        """Return it as a parameter of a function, for typer to read.

        arguments: those of its command, in order.
        """
        values = _completer(self.kind, arguments) if self.kind else None
        name = self.names[0].lstrip("-").replace("-", "_")
        if self.is_option:
            names = ("/".join(self.names),) if self.is_flag else self.names
            info = typer.Option(*names, autocompletion=values)
        else:
            info = typer.Argument(autocompletion=values)
        kind = bool if self.is_flag else list[str] if self.is_repeated else str
        return inspect.Parameter(
            f"{name}_" if iskeyword(name) else name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kind | None, info],
        )


def parameters_of(path: str) -> list[Parameter]:
    """Return the parameters of a command such as `sweep submit`, in order."""
    return [Parameter.parse(word) for word in SIGNATURES[path].split()]


def outline(path: str) -> TyperCommand:
    """Return a command that has the parameters of another and does nothing."""

    def nothing(**_: object) -> None: ...

    found = parameters_of(path)
    arguments = [parameter.names[0] for parameter in found if not parameter.is_option]
    parameters = [parameter.as_python(arguments) for parameter in found]
    vars(nothing)["__signature__"] = inspect.Signature(parameters)
    return command_of(path.rpartition(" ")[2], nothing)


def _completer(kind: str, arguments: Sequence[str]) -> Callable[[typer.Context, str], list[str]]:
    """Return the function that typer calls for values. arguments: the command's, in order."""

    def values(ctx: typer.Context, incomplete: str) -> list[str]:
        if "|" in kind:
            return kind.split("|")
        module, _, function = COMPLETERS[kind].partition(":")
        read = getattr(import_module(module), function)
        # An option that lacks its value leaves arguments where they are.
        given = {name: value for name, value in ctx.params.items() if value}
        given = {**dict(zip(arguments, ctx.args, strict=False)), **given}
        return within(LIMIT_S, lambda: read(given, incomplete))

    return values


def within(limit_s: float, read: Callable[[], Iterable[str]]) -> list[str]:
    """Return the values that a shell can take on one line; none if they can't be read.

    limit_s: seconds to wait while nothing is computed: for a lock, or another host's disk. Whoever
    presses TAB has not run a command, so is told of no failure.
    """
    found: list[str] = []

    def work() -> None:
        with suppress(Exception):
            found.extend(value for value in read() if value and visible(value) == value)

    reader = Thread(target=work, daemon=True)
    reader.start()
    while reader.is_alive():
        computed_s = process_time()
        reader.join(limit_s)
        if reader.is_alive() and process_time() - computed_s < limit_s / 100:
            return []
    return found
