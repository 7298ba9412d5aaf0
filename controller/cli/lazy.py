"""Commands that are listed from a table and imported when they are called.

Help and the completion of names need no module of a command, so these import at their top.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from controller.platform.terminal import say

OUTLINES = "controller.cli.outline"
USAGE = 2
"""Exit status of a call that names no command, as of any other that can't be understood."""


class LazyCommand(TyperCommand):
    """A command's name and summary, which stand for it until it is called."""

    def __init__(self, name: str, summary: str, place: str) -> None:
        """place: `module:function`, or `module` whose `app` has a command of this name."""
        super().__init__(name, short_help=summary)
        self._place = place

    def load(self) -> TyperCommand:
        """Return the command itself, whose module is imported for it."""
        module, _, function = self._place.partition(":")
        imported = _imported(module)
        if function:
            return command_of(self.name or "", getattr(imported, function))
        holder = typer.Typer(rich_markup_mode=None, add_completion=False)
        holder.add_typer(imported.app, name="group")
        group = get_group(holder).commands["group"]
        assert isinstance(group, TyperGroup)
        command = group.commands[self.name or ""]
        assert isinstance(command, TyperCommand)
        return command


class LazyGroup(TyperGroup):
    """Commands, each loaded when it is called."""

    def resolve_command(
        self,
        ctx: Any,  # noqa: ANN401 - typer names the type of contexts that it passes privately
        args: list[str],
    ) -> Any:  # noqa: ANN401 - and that of commands
        """Return the name, the command and what is left of a call."""
        name, command, rest = super().resolve_command(ctx, args)
        if not isinstance(command, LazyCommand):
            return name, command, rest
        if not ctx.resilient_parsing:
            return name, command.load(), rest
        outlines = import_module(OUTLINES)  # only completion needs them
        return name, outlines.outline(f"{ctx.command_path} {name}".partition(" ")[2]), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as above
        """Show the help of a group that is called without a command, as an error."""
        if not args and not ctx.resilient_parsing:
            say(ctx.get_help(), err=True, lines=True)
            raise typer.Exit(USAGE)
        return super().parse_args(ctx, args)


def _imported(module: str) -> ModuleType:
    """Import a command's module; modules become no garbage, and looking for it takes a tenth of a
    short call."""
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def command_of(name: str, function: Callable[..., None]) -> TyperCommand:
    """Return the command that calls a function."""
    holder = typer.Typer(rich_markup_mode=None, add_completion=False)
    holder.command(name)(function)
    holder.callback()(_none)
    command = get_group(holder).commands[name]
    assert isinstance(command, TyperCommand)
    return command


def lazy_group(
    name: str, summary: str, places: Mapping[str, str], verbs: Mapping[str, str]
) -> LazyGroup:
    """Return a group of commands. places: where each verb is; verbs: what it does, in a
    sentence."""
    commands = {verb: LazyCommand(verb, said, places[verb]) for verb, said in verbs.items()}
    return LazyGroup(name=name, help=summary, commands={**commands}, rich_markup_mode=None)


def _none() -> None:
    """Keep a holder of one command a group."""
