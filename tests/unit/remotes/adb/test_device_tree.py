from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath

import pytest

from agents.remotes.adb.commands import new_token, others_tags
from agents.remotes.adb.device_tree import (
    find_runs,
    is_shared,
    list_tree,
    most_listed_bytes,
    needed_bytes,
    parse_free_bytes,
    parse_listing,
)
from agents.remotes.remote import RUNS, FaultKind, RemoteFault
from agents.remotes.tree import listing_of_folder
from controller.platform.processes import ATTEMPT_MARKER
from tests.support.remotes import make_folder

SUM = "a" * 64
LISTED = f"""{SUM}  ./bin/hello
{SUM}  ./two  spaces
--
./bin/hello
--
.
./bin
--
./start
bin/hello
"""
TOYBOX_DF = """Filesystem     1K-blocks     Used Available Use% Mounted on
/dev/block/dm-8 115249236 21567204  93551016  19% /data
"""
TOOLBOX_DF = """Filesystem             Size   Used   Free   Blksize
/data                 12.1G   4.5G   7.5G   4096
"""


def test_a_tree_s_listing() -> None:
    assert parse_listing("R58M", LISTED) == {
        "bin/hello": f"program {SUM}",
        "two  spaces": f"file {SUM}",
        "bin": "directory",
        "start": "link bin/hello",
    }


def test_a_tree_s_own_listing_is_never_too_long(tmp_path: Path) -> None:
    make_folder(tmp_path / "tree", 1000)
    for number in range(200):
        (tmp_path / "tree" / f"{number}-{'ü' * 100}").symlink_to("bin/hello")
        (tmp_path / "tree" / f"{number}").write_text("x")
        (tmp_path / "tree" / f"{number}").chmod(0o755)
    listing = listing_of_folder(tmp_path / "tree")
    command = list_tree(PurePosixPath(tmp_path / "tree"))
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    assert parse_listing("R58M", listed.decode()) == listing
    assert len(listed) < most_listed_bytes(listing) < 20 * len(listed)


def test_an_empty_tree() -> None:
    assert parse_listing("R58M", "--\n--\n.\n--\n") == {}


@pytest.mark.parametrize("text", ["", "find: not found\n", LISTED + "odd\n", "--\n--\n.\n"])
def test_a_listing_that_was_cut_is_no_listing(text: str) -> None:
    with pytest.raises(RemoteFault) as caught:
        parse_listing("R58M", text)
    assert caught.value.kind is FaultKind.PROTOCOL


@pytest.mark.parametrize(
    ("text", "free"),
    [
        (TOYBOX_DF, 93551016 << 10),
        (TOOLBOX_DF, int(7.5 * 2**30)),
        ("Filesystem Size Used Free Blksize\r\n/data 12.1G 12.1G 768.0K 4096\r\n", 768 << 10),
    ],
)
def test_free_storage(text: str, free: int) -> None:
    assert parse_free_bytes("R58M", text) == free


@pytest.mark.parametrize("text", ["", "df: /data: No such file or directory\n", "Available\nx\n"])
def test_free_storage_that_can_t_be_read(text: str) -> None:
    with pytest.raises(RemoteFault) as caught:
        parse_free_bytes("R58M", text)
    assert caught.value.kind is FaultKind.PROTOCOL


def test_archive_and_files_need_room_at_once() -> None:
    assert needed_bytes(100 << 20, 1000) > (200 << 20) + 1000 * 4096


@pytest.mark.parametrize(
    ("owner", "folder", "shared"),
    [("other", RUNS, True), ("other", "elsewhere", False), ("ours", RUNS, False)],
)
def test_another_owner_s_run_is_found_and_no_other_program(
    owner: str, folder: str, shared: bool, tmp_path: Path
) -> None:
    settings = tmp_path / folder / "run-1" / "performance.json"
    waits = ("sh", "-c", "echo begun; read line", "run", str(settings))
    environment = {"PATH": "/usr/bin:/bin", ATTEMPT_MARKER: new_token(owner)}
    look = find_runs(PurePosixPath(tmp_path), others_tags("ours"))
    pipe = subprocess.PIPE
    with subprocess.Popen(waits, stdin=pipe, stdout=pipe, env=environment) as program:
        assert program.stdout
        assert program.stdout.readline() == b"begun\n"
        found = subprocess.run(look, check=False).returncode
        program.communicate(b"end\n")
    assert is_shared(found) is shared
    assert subprocess.run(look, check=False).returncode == 0
