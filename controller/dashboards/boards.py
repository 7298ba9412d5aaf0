"""All dashboards."""

from __future__ import annotations

from controller.dashboards.board import Board
from controller.dashboards.compare import compare
from controller.dashboards.device import device
from controller.dashboards.fleet import fleet
from controller.dashboards.mobile import mobile
from controller.dashboards.sweep import sweep_live
from controller.dashboards.training import training


def all_boards() -> tuple[Board, ...]:
    """Return every dashboard, in the order of the documentation."""
    return fleet(), compare(), device(), sweep_live(), training(), mobile()
