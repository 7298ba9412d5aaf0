"""`ray start` that fails: what is tried again, what is said, and that nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from controller.contracts.errors import FarmUnavailable
from controller.runtime import cluster
from controller.runtime.addresses import Address
from controller.runtime.cluster import HEAD_STARTS, Head, start_head
from controller.runtime.home import Home

LATE = "Exception: The current node timed out during startup. This could happen because of load."
HEAD = Head(listen=Address("127.0.0.1", 6379))
Failing = Callable[[str, int], Path]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Put a program in the place of `ray start`; it notes its starts in the file returned."""

    def make(said: str, fails: int) -> Path:
        starts = tmp_path / "starts"
        script = 'echo >>"$1"; printf "%s\n\n" "$2" >&2; (($(wc -l <"$1") > $3))'
        command = ["bash", "-c", script, "ray", str(starts), said, str(fails)]
        monkeypatch.setattr(cluster, "_head_command", lambda *_: command)
        return starts

    return make


def test_a_head_that_ray_gave_up_on_is_started_anew(home: Home, failing: Failing) -> None:
    starts = failing(LATE, HEAD_STARTS - 1)
    started = start_head(home, HEAD, "abc")
    assert len(starts.read_text()) == HEAD_STARTS
    assert home.cluster() == started
    assert started.instance == "abc"


@pytest.mark.parametrize(("said", "tries"), [(LATE, HEAD_STARTS), ("OSError: disk", 1), ("", 1)])
def test_what_ray_says_last_is_told_and_nothing_is_left(
    said: str, tries: int, home: Home, failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    def new_temp_dir() -> str:
        folders.append(home.path / f"ray-{len(folders)}")
        folders[-1].mkdir()
        return str(folders[-1])

    monkeypatch.setattr(cluster, "new_temp_dir", new_temp_dir)
    starts = failing(said, HEAD_STARTS)
    with pytest.raises(FarmUnavailable) as refused:
        start_head(home, HEAD)
    why = f"ray start exited with 1{': ' if said else ''}{said.removesuffix('.')}"
    log = home.logs / "ray-head.log"
    assert str(refused.value) == f"cannot start Ray: {why}. See its output in {log}."
    assert (len(starts.read_text()), len(folders)) == (tries, tries)
    assert not any(folder.exists() for folder in folders)
    assert home.cluster() is None
