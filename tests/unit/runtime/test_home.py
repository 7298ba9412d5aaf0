from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from controller.contracts.errors import FarmUnavailable, HomeUnusable, UserError
from controller.platform.atomic import write_private
from controller.platform.user_cache import user_cache
from controller.runtime.home import Cluster, Endpoint, Home

CLUSTER = Cluster(
    instance="abc", ray_address="127.0.0.1:1", dashboard_url="http://127.0.0.1:2", temp_dir="/t"
)
ENDPOINT = Endpoint(url="http://127.0.0.1:3", version="0.2.0", pid=7)


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "deep" / "home")
    home.prepare()
    return home


def test_the_home_is_the_environments_or_the_users() -> None:
    assert Home.from_environment({"BENCHFARM_HOME": "/srv/farm"}) == Home(Path("/srv/farm"))
    users = Home(Path("~/.benchfarm").expanduser())
    assert Home.from_environment({}) == Home.from_environment({"BENCHFARM_HOME": ""}) == users
    assert Home.from_environment({"BENCHFARM_HOME": "here"}) == Home(Path.cwd() / "here")


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without HOME whom the machine doesn't know, as in a container run with `--user`."""

    def unknown(uid: int) -> NoReturn:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("no_home")
def test_a_user_without_a_home_is_told_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(HomeUnusable, match=r"no home folder.*Set BENCHFARM_HOME"):
        Home.from_environment({})
    assert Home.from_environment({"BENCHFARM_HOME": str(tmp_path)}) == Home(tmp_path)
    with pytest.raises(UserError, match=r"no home folder.*Set XDG_CACHE_HOME"):
        user_cache("inductor", {})
    assert user_cache("i", {"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "benchfarm/i"


def test_the_home_of_nobody_is_refused() -> None:
    with pytest.raises(HomeUnusable, match=r"BENCHFARM_HOME ~nobody-of-this-name/farm.*no home"):
        Home.from_environment({"BENCHFARM_HOME": "~nobody-of-this-name/farm"})


def test_a_home_whose_path_is_not_text_is_refused_in_one_line() -> None:
    with pytest.raises(HomeUnusable, match="its path is not UTF-8") as refused:
        Home.from_environment({"BENCHFARM_HOME": os.fsdecode(b"/srv/farm\xff")})
    assert str(refused.value).isprintable()


def test_home_and_tokens_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = Home(tmp_path / "home")
        home.prepare()
    finally:
        os.umask(before)
    assert permissions(home.path) == 0o700
    for token in (home.ray_token, home.api_token):
        assert permissions(token) == 0o600
        assert len(token.read_text()) == 64
    assert home.ray_token.read_text() != home.api_token.read_text()


def test_preparing_again_keeps_the_tokens(home: Home) -> None:
    before = home.ray_token.read_text(), home.api_token.read_text()
    home.prepare()
    assert (home.ray_token.read_text(), home.api_token.read_text()) == before
    made = {path.name for path in home.path.iterdir()}
    assert made == {"api-token", "logs", "metrics-token", "ray-token"}


def test_an_empty_token_lets_nobody_in(home: Home) -> None:
    home.api_token.write_text("")
    home.prepare()
    assert len(home.api_token.read_text()) == 64


def test_a_file_is_replaced_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old and long")
    path.chmod(0o644)
    write_private(path, "new")
    assert path.read_text() == "new"
    assert permissions(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_up_is_read_back(home: Home) -> None:
    write_private(home.cluster_file, CLUSTER.model_dump_json())
    write_private(home.endpoint_file, ENDPOINT.model_dump_json())
    assert home.cluster() == CLUSTER
    assert home.endpoint() == ENDPOINT


def test_nothing_is_up(home: Home) -> None:
    assert home.cluster() is None
    with pytest.raises(FarmUnavailable) as caught:
        home.endpoint()
    assert "benchfarm up" in caught.value.remedy


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"instance": 1}', b"\xff\xfe", b"\x00" * 100]
)
@pytest.mark.parametrize("read", [Home.cluster, Home.endpoint])
def test_a_damaged_file_makes_the_home_unusable(
    home: Home, content: bytes, read: Callable[[Home], object]
) -> None:
    for path in (home.cluster_file, home.endpoint_file):
        path.write_bytes(content)
    with pytest.raises(HomeUnusable) as caught:
        read(home)
    assert str(home.path) in caught.value.tried


def test_a_folder_where_a_file_should_be(home: Home) -> None:
    home.cluster_file.mkdir()
    with pytest.raises(HomeUnusable):
        home.cluster()


@pytest.mark.parametrize("name", ["home", "home/logs"])
def test_a_file_where_a_folder_should_be(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("in the way")
    with pytest.raises(HomeUnusable) as caught:
        Home(tmp_path / "home").prepare()
    assert caught.value.tried == f"use BENCHFARM_HOME {tmp_path / 'home'}"


def test_a_joined_host_has_the_heads_tokens(home: Home, tmp_path: Path) -> None:
    joined = Home(tmp_path / "joined")
    joined.adopt_token(home.ray_token)
    assert joined.ray_token.read_text() == home.ray_token.read_text()
    assert joined.metrics_token.read_text() == home.metrics_token.read_text()
    assert joined.metrics_token.read_text() != joined.ray_token.read_text()
    assert joined.api_token.read_text() != home.api_token.read_text()
    assert permissions(joined.ray_token) == 0o600


@pytest.mark.parametrize("content", [None, b"", b"short", b"two words of a token", b"\xff" * 40])
def test_a_file_without_a_token_is_refused(home: Home, content: bytes | None) -> None:
    before = home.ray_token.read_text()
    file = home.path / "given"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match="cannot use --token-file"):
        home.adopt_token(file)
    assert home.ray_token.read_text() == before
