"""Scoreboards: each device's best row relative to the best row of each ranking. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controller.reports.views.model import DeviceName, Ranking, Row, Score, Scoreboard


def scoreboards_of(rankings: Sequence[Ranking]) -> tuple[Scoreboard, ...]:
    """Return a scoreboard of real devices and one of virtual devices, if they have rows to compare.

    Only a device's best row in each ranking counts.
    """
    boards = []
    for virtual in (False, True):
        chosen = tuple(r for r in rankings if r.virtual is virtual and r.columns.compares_speed)
        devices = {row.device.id: row.device for r in chosen for row in r.rows}
        if len(chosen) > 1 and len(devices) > 1:
            lines = ((device, _scores(device, chosen)) for device in devices.values())
            boards.append(Scoreboard(virtual, chosen, tuple(sorted(lines, key=_standing))))
    return tuple(boards)


def _scores(device: DeviceName, rankings: Sequence[Ranking]) -> tuple[Score | None, ...]:
    return tuple(_score([row for row in r.rows if row.device.id == device.id]) for r in rankings)


def _score(rows: Sequence[Row]) -> Score | None:
    measured = [row for row in rows if row.rank is not None]
    if not measured:
        return None
    best = min(measured, key=lambda row: row.rank or 0)
    if best.rank == 1:
        return Score(1.0, tied=False)
    if best.vs_best is None:  # one of both values is not positive
        return None
    return Score(best.vs_best.value, tied=not best.vs_best.shown)


def _standing(line: tuple[DeviceName, tuple[Score | None, ...]]) -> tuple[float, str]:
    """Return the sort key: mean share, with 0 for what was not measured; best first."""
    shares = [score.share if score else 0.0 for score in line[1]]
    return -sum(shares) / len(shares), line[0].id
