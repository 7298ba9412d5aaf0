from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from agents.remotes.outputs import Lines
from agents.remotes.tree import Tree, TreeInvalid, differences, listing_of_folder
from tests.support.remotes import make_folder
from tests.support.syncs import spied_syncs


def tar_of(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_a_folder_and_its_tar_are_the_same_tree(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "tree", 5000)
    tree = Tree.of(folder, tmp_path / "archives")
    again = Tree.of(tree.archive, tmp_path / "archives")
    assert (again.digest, again.listing) == (tree.digest, listing_of_folder(folder))
    assert tree.programs == ["bin/hello"]
    assert tree.listing["start"] == "link bin/hello"
    assert tree.listing["empty"] == "directory"


def test_equal_folders_make_equal_tars(tmp_path: Path) -> None:
    one = Tree.of(make_folder(tmp_path / "one", 5000), tmp_path / "a")
    os.utime(make_folder(tmp_path / "two", 5000) / "data.bin", (1, 1))
    two = Tree.of(tmp_path / "two", tmp_path / "b")
    assert one.digest == two.digest
    assert one.archive.read_bytes() == two.archive.read_bytes()


def test_a_file_with_two_names_is_packed_as_two(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "tree", 5000)
    (folder / "again.bin").hardlink_to(folder / "data.bin")
    tree = Tree.of(folder, tmp_path / "archives")
    assert Tree.of(tree.archive, tmp_path).listing == tree.listing
    assert tree.listing["again.bin"] == tree.listing["data.bin"]


def test_folders_that_a_tar_does_not_name_are_there_all_the_same(tmp_path: Path) -> None:
    tree = Tree.of(tar_of(tmp_path / "x.tar", member("./a/b/c")), tmp_path)
    assert list(tree.listing) == ["a", "a/b", "a/b/c"]


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/passwd"),
        member("../x"),
        member("a/../../x"),
        member("two\nlines"),
        member("back\\slash"),
        member("pipe", tarfile.FIFOTYPE),
        member("hard", tarfile.LNKTYPE, "x"),
        member("soft", tarfile.SYMTYPE, "two\nlines"),
    ],
)
def test_what_not_every_remote_can_take_is_refused(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    with pytest.raises(TreeInvalid, match=r"Give a folder or a plain \.tar"):
        Tree.of(tar_of(tmp_path / "x.tar", member("x"), bad), tmp_path)


OUT = member("out", tarfile.SYMTYPE, "/elsewhere")


@pytest.mark.parametrize(
    "entries", [(OUT, member("out/x")), (member("out/x"), OUT), (OUT, member("out"))]
)
def test_what_would_be_written_where_a_link_leads_is_refused(
    tmp_path: Path, entries: tuple[tarfile.TarInfo, ...]
) -> None:
    with pytest.raises(TreeInvalid, match=r"'out' is a (link|file|directory).* and a "):
        Tree.of(tar_of(tmp_path / "x.tar", *entries), tmp_path)


@pytest.mark.parametrize("filters", [True, False])
def test_a_tree_is_unpacked_by_pythons_with_and_without_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filters: bool
) -> None:
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    tree = Tree.of(make_folder(tmp_path / "tree", 5000), tmp_path / "archives")
    tree.unpack(tmp_path / "unpacked")
    assert listing_of_folder(tmp_path / "unpacked") == tree.listing


def test_what_is_no_tar_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"no tar" * 1000)
    for path in (tmp_path / "x.tar", tmp_path / "absent"):
        with pytest.raises(TreeInvalid):
            Tree.of(path, tmp_path)


def test_a_pipe_in_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    os.mkfifo(tmp_path / "tree" / "pipe")
    with pytest.raises(TreeInvalid, match="neither a file, a folder nor a link"):
        Tree.of(tmp_path / "tree", tmp_path / "archives")


def test_differences_are_named() -> None:
    wanted = {"a": "file 1", "b": "file 2", "c": "directory"}
    found = {"a": "file 1", "b": "program 2", "d": "file 4"}
    assert differences(wanted, found) == ["b: program 2", "c: missing", "d: file 4"]
    assert differences(wanted, dict(wanted)) == []


def test_differences_in_odd_names_are_told_in_printable_ones() -> None:
    found = {os.fsdecode(b"gr\xfc\xc3\xbc"): "link two\nlines"}
    assert differences({}, found) == [r"gr\udcfcü: link two\nlines"]


@pytest.mark.parametrize("left_bytes", [0, 512, 700, 6000])
def test_a_kept_tar_that_lost_its_end_is_packed_again(tmp_path: Path, left_bytes: int) -> None:
    """As a power cut leaves one whose content was never written."""
    folder = make_folder(tmp_path / "tree", 5000)
    kept = Tree.of(folder, tmp_path / "archives")
    os.truncate(kept.archive, left_bytes)
    assert Tree.of(folder, tmp_path / "archives") == kept
    kept.unpack(tmp_path / "unpacked")
    assert listing_of_folder(tmp_path / "unpacked") == kept.listing


def test_a_kept_tar_is_used_again(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "tree", 5000)
    first = Tree.of(folder, tmp_path / "archives").archive.stat()
    again = Tree.of(folder, tmp_path / "archives").archive.stat()
    assert (first.st_ino, first.st_mtime_ns) == (again.st_ino, again.st_mtime_ns)


def test_a_tar_is_on_disk_before_it_counts_as_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = spied_syncs(monkeypatch)
    tree = Tree.of(make_folder(tmp_path / "tree", 5000), tmp_path / "archives")
    assert synced == [tree.archive_bytes, tree.archive.parent]


def test_lines() -> None:
    lines = Lines(limit=10)
    assert lines.feed(b"one\ntw") == [b"one"]
    assert lines.feed(b"") == []
    assert lines.feed(b"o\n\nthree") == [b"two", b""]
    assert (lines.rest(), lines.rest()) == (b"three", b"")


def test_a_line_beyond_the_limit() -> None:
    lines = Lines(limit=10)
    lines.feed(b"12345")
    with pytest.raises(OverflowError, match="more than 10 bytes"):
        lines.feed(b"678901\n")
