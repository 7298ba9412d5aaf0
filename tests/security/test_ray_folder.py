"""Ray opens its folder to every user of the machine; what is around it lets nobody else in."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.contracts.errors import UserError
from controller.runtime.cluster import Head, new_temp_dir, remove_temp_dir, start_head, stop
from controller.runtime.home import Home
from tests.support.other_user import OTHER_UID, call_as_other_user, needs_other_user

Attack = Callable[[Path], object]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a Ray head that runs."""
    home = Home(tmp_path_factory.mktemp("head"))
    home.prepare()
    cluster = start_head(home, Head())
    yield Path(cluster.temp_dir)
    stop(home, cluster)
    assert not Path(cluster.temp_dir).parent.exists()


def replace_address(folder: Path) -> None:
    """Have the next driver speak to a GCS of the attacker's, and tell it the token."""
    address = folder / "ray_current_cluster"
    address.rename(folder / "away")
    address.write_text("127.0.0.1:1")


def plant_log(folder: Path) -> None:
    (folder / "session_latest" / "logs" / "planted").write_text("")


def replace_sockets(folder: Path) -> None:
    (folder / "session_latest" / "sockets").rename(folder / "session_latest" / "away")


def connect(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder / "session_latest" / "sockets" / "raylet"))


ATTACKS: dict[str, Attack] = {
    "list": os.listdir,
    "read the address": lambda folder: (folder / "ray_current_cluster").read_text(),
    "replace the address": replace_address,
    "plant a log": plant_log,
    "replace the sockets": replace_sockets,
    "connect to the raylet": connect,
    "replace the folder": lambda folder: folder.rename(folder.with_name("away")),
    "replace what is around": lambda folder: folder.parent.rename(f"{folder.parent}-away"),
    "link into it": lambda folder: (folder / "link").symlink_to("/etc"),
}


@needs_other_user
@pytest.mark.integration
@pytest.mark.farm
def test_nothing_of_ray_s_is_read_replaced_or_connected_to(folder: Path) -> None:
    opened = [path for path in (folder, folder / "session_latest" / "sockets") if is_open(path)]
    assert opened, "Ray no longer opens its folders: this test shows nothing any more"
    assert [name for name, attack in ATTACKS.items() if succeeds(attack, folder)] == []
    connect(folder)  # as we can, there was something to attack


def succeeds(attack: Attack, folder: Path) -> bool:
    try:
        call_as_other_user(lambda: attack(folder))
    except PermissionError:
        return False
    return True


def is_open(folder: Path) -> bool:
    return folder.stat().st_mode & 0o777 == 0o777


def shared(place: Path) -> None:
    place.chmod(0o777)


def theirs(place: Path) -> None:
    os.chown(place, OTHER_UID, OTHER_UID)


@needs_other_user
@pytest.mark.parametrize("spoil", [shared, theirs])
def test_a_place_where_others_could_replace_the_folder_is_refused(
    spoil: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    place.mkdir()
    spoil(place)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with pytest.raises(UserError, match=rf"others can replace what is in {place}\. Set TMPDIR"):
        new_temp_dir()
    assert list(place.iterdir()) == []


def test_a_sticky_place_will_do_and_nothing_stays_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    temp_dir = Path(new_temp_dir(longest=1000))
    assert temp_dir.parent.stat().st_mode & 0o777 == 0o700
    temp_dir.mkdir(mode=0o777)
    (temp_dir / "session").mkdir()
    remove_temp_dir(str(temp_dir))
    assert list(tmp_path.iterdir()) == []


def test_a_path_too_long_for_sockets_is_refused_before_ray_stumbles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("long" * 20)
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with pytest.raises(UserError, match=r"too many for a socket in it\. Set TMPDIR"):
        new_temp_dir()
    assert list(place.iterdir()) == []
