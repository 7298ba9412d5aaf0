"""What a result says of where it comes from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agents.host.provenance import checksums_in, software_facts, with_provenance
from controller.contracts.facts import declaration_of
from controller.contracts.version import checked_out, installed_version
from tests.support.builders import result

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_every_file_that_an_attempt_left_has_a_checksum(tmp_path: Path) -> None:
    log = tmp_path / "performance" / "mlperf_log_summary.txt"
    log.parent.mkdir()
    log.write_text("Result is : VALID\n")
    (tmp_path / "output.log").write_text("")
    (tmp_path / "link").symlink_to(log)
    found = with_provenance(result(), tmp_path)
    assert found.checksums == {
        str(tmp_path / "output.log"): hashlib.sha256(b"").hexdigest(),
        str(log): hashlib.sha256(b"Result is : VALID\n").hexdigest(),
    }
    assert found.environment["threads"] == 2
    assert str(found.environment["benchfarm"]).startswith(f"{installed_version()} (")
    assert all(declaration_of(name) for name in software_facts())


def test_large_and_very_many_files_have_none(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name * 10)
    (tmp_path / "b").write_text("b" * 11)
    assert [Path(name).name for name in checksums_in(tmp_path, most_bytes=10)] == ["a", "c"]
    assert len(checksums_in(tmp_path, most_files=2)) == 2
    assert checksums_in(tmp_path / "gone") == {}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("further", [False, True])
def test_the_commit_of_a_working_copy_is_read(tmp_path: Path, packed: bool, further: bool) -> None:
    git = tmp_path / "repository" / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    head, copy = git, git.parent
    if further:
        head, copy = git / "worktrees" / "copy", tmp_path / "copy"
        head.mkdir(parents=True)
        copy.mkdir()
        (copy / ".git").write_text(f"gitdir: {head}\n")
        (head / "commondir").write_text("../..\n")
    (head / "HEAD").write_text("ref: refs/heads/main\n")
    if packed:
        (git / "packed-refs").write_text(f"# pack-refs\n{COMMIT} refs/heads/main\n")
    else:
        (git / "refs" / "heads" / "main").write_text(f"{COMMIT}\n")
    assert checked_out(copy) == COMMIT
    (head / "HEAD").write_text(f"{COMMIT}\n")
    assert checked_out(copy) == COMMIT
    (head / "HEAD").write_text("what?\n")
    assert checked_out(copy) is None
    assert checked_out(tmp_path) is None
