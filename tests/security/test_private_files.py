"""Secrets that others could have read or written are refused; a home is made private."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from controller.contracts.errors import UserError
from controller.runtime.client import FarmClient
from controller.runtime.home import Home
from controller.runtime.redis import RedisServer
from tests.support.other_user import OTHER_UID, call_as_other_user, needs_other_user

SECRET = "0123456789abcdef" * 4


def take_token(file: Path) -> str:
    """As `agent start --token-file` does."""
    home = Home(file.parent / "joined")
    home.adopt_token(file)
    return home.ray_token.read_text()


def take_password(file: Path) -> str:
    return RedisServer(host="h", port=1, password_file=str(file)).password()


def take_api_token(file: Path) -> str:
    """As every command does that asks the controller."""
    home = Home(file.parent)
    file.rename(home.api_token)
    return FarmClient(home, {})._token()


def prepare_again(file: Path) -> str:
    """As `up` does."""
    home = Home(file.parent)
    file.rename(home.ray_token)
    home.prepare()
    return home.ray_token.read_text()


every_taker = pytest.mark.parametrize(
    "take", [take_token, take_password, take_api_token, prepare_again]
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    return file


@every_taker
@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_private_file_is_taken_without_a_word(
    take: Callable[[Path], str], mode: int, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.chmod(mode)
    assert take(file) == SECRET
    assert capsys.readouterr() == ("", "")


@every_taker
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_that_others_can_read_is_refused_at_once(
    take: Callable[[Path], str], mode: int, file: Path
) -> None:
    file.chmod(mode)
    with pytest.raises(UserError) as refused:
        take(file)
    assert refused.value.seen == f"others can read it (mode {mode:o})"
    assert refused.value.remedy.startswith("Run `chmod 600 /")


@every_taker
@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_a_file_that_others_can_write_is_refused(
    take: Callable[[Path], str], mode: int, file: Path
) -> None:
    file.chmod(mode)
    with pytest.raises(UserError, match=f"others can write to it .mode {mode:o}"):
        take(file)


@every_taker
def test_a_link_is_refused(take: Callable[[Path], str], file: Path) -> None:
    elsewhere = file.rename(file.with_name("elsewhere"))
    file.symlink_to(elsewhere)
    with pytest.raises(UserError, match="it is a symbolic link"):
        take(file)


@every_taker
def test_a_fifo_is_refused_and_not_waited_for(take: Callable[[Path], str], file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(UserError, match="it is not a regular file"):
        take(file)


@needs_other_user
@every_taker
def test_another_users_file_is_refused(take: Callable[[Path], str], file: Path) -> None:
    os.chown(file, OTHER_UID, OTHER_UID)
    with pytest.raises(UserError, match=f"it belongs to another user .uid {OTHER_UID}") as refused:
        take(file)
    # Root must not be told to replace the token of a farm.
    is_of_home = take in (take_api_token, prepare_again)
    assert refused.value.remedy.startswith("Run this as the user of the farm") == is_of_home


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o777])
def test_a_home_that_was_open_is_private_from_now_on_and_that_is_said(
    mode: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / "home")
    home.path.mkdir()
    home.path.chmod(mode)
    home.prepare()
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert f"{home.path} was open to other users (mode {mode:o})" in capsys.readouterr().err
    home.prepare()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_home_in_which_others_could_have_put_things_is_refused(mode: int, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    home.path.chmod(mode)
    with pytest.raises(UserError, match="others can write to it"):
        home.prepare()


@needs_other_user
def test_another_users_home_is_refused_also_behind_a_link(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, OTHER_UID, OTHER_UID)
    link = tmp_path / "link"
    link.symlink_to(theirs)
    ours = tmp_path / "ours"
    ours.mkdir(mode=0o700)
    planted = tmp_path / "planted"
    planted.symlink_to(ours)
    os.chown(planted, OTHER_UID, OTHER_UID, follow_symlinks=False)
    for path in (theirs, link, planted):
        with pytest.raises(UserError, match="it belongs to another user") as refused:
            Home(path).prepare()
        assert refused.value.remedy.startswith("Run this as the user of the farm")


@needs_other_user
def test_what_a_stranger_plants_where_a_home_is_to_be_is_not_used() -> None:
    with TemporaryDirectory() as shared:
        Path(shared).chmod(0o1777)  # as /tmp is
        path = Path(shared) / "home"

        def plant() -> None:
            path.mkdir(mode=0o777)
            (path / "ray-token").write_text(SECRET)

        call_as_other_user(plant)
        with pytest.raises(UserError, match="it belongs to another user"):
            Home(path).prepare()
