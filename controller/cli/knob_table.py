"""The table of a manifest's knobs."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Column, Table

from controller.cli.common import show_table
from controller.contracts.base import scalar_text
from controller.contracts.manifests import Knob


def show_knobs(knobs: Mapping[str, Knob]) -> None:
    """Print each knob's type, default, allowed values and meaning; nothing if there are none."""
    if not knobs:
        return
    table = Table(Column("knob", no_wrap=True), "type", "default", "allowed", "meaning")
    for name, knob in knobs.items():
        default = scalar_text(knob.default)
        table.add_row(name, knob.type, default, knob.allowed, knob.description)
    show_table(table)
