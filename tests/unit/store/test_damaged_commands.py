"""Commands on a store with random damage of its bytes: lines, never a traceback."""

from __future__ import annotations

import random
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from controller.cli.main import main
from tests.support import sqlite_damage
from tests.support.sample_store import make
from tests.support.store_examples import sweep_record

COMMANDS = (
    *("results list", "results list --failures", "results report SWEEP -o OUT.html"),
    *("sweep status", "sweep status SWEEP", "device list", "device history phone-1", "agent list"),
    *("store check", "store salvage OUT.sqlite", "publish OUT.board"),
)
SWEEP_ID = sweep_record(generation=1, repeats=12).sweep_id
STATUSES = {"store check": (0, 1, 2)}
"""All others end with 0 or 2."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "store.sqlite"
    make(path)
    return path.read_bytes()


def _called(home: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[object, str, str]:
    """Call a command in this process; return its exit status, what it said, and its complaint."""
    words = command.replace("SWEEP", SWEEP_ID).replace("OUT", str(home / "out")).split()
    said, complained = StringIO(), StringIO()
    monkeypatch.setenv("BENCHFARM_HOME", str(home))
    monkeypatch.setattr(sys, "argv", ["benchfarm", *words])
    with redirect_stdout(said), redirect_stderr(complained), pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, said.getvalue(), complained.getvalue()


def test_the_commands_do_what_they_say_on_a_sound_store(
    tmp_path: Path, sound: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store.sqlite").write_bytes(sound)
    for command in COMMANDS:
        status, _, complaint = _called(tmp_path, command, monkeypatch)
        assert (status, complaint) == (0, ""), command


@pytest.mark.parametrize("seed", range(12))
def test_every_command_ends_with_lines(
    tmp_path: Path, sound: bytes, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, strike = bytearray(sound), sqlite_damage.BY_BYTES[seed % len(sqlite_damage.BY_BYTES)]
    strike(random.Random(1000 + seed), data)
    (tmp_path / "store.sqlite").write_bytes(data)
    for command in random.Random(seed).sample(COMMANDS, 5):
        status, _, complaint = _called(tmp_path, command, monkeypatch)
        context = f"{command} on damage {seed} by {strike.__name__}: {complaint}"
        assert status in STATUSES.get(command, (0, 2)), context
        lines = complaint.splitlines()
        assert all(line.startswith("benchfarm: ") and line.isprintable() for line in lines), context
        assert status != 2 or lines, context
