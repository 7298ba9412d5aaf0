"""`make audit`: a table, an exit status, and a clear line for whatever can't be read."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from deploy.supply.audit import main
from deploy.supply.pins import LOCK, PROJECT

VULNERABLE = {
    "id": "GHSA-1",
    "modified": "2026-03-04T05:06:07Z",
    "aliases": ["CVE-2026-1"],
    "summary": "Reads [red]past\x1b[31m the end",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "NumPy"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.0"}]}],
        }
    ],
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "200")
    root = tmp_path / "repository"
    (root / LOCK).parent.mkdir(parents=True)
    (root / LOCK).write_text("numpy==1.9\nrich==15.0.0\n")
    (root / PROJECT).write_text("[project.optional-dependencies]\ntorch = ['torch==2.13.0']\n")
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "osv").mkdir()
    (tmp_path / "osv/GHSA-1.json").write_text(json.dumps(VULNERABLE))
    return tmp_path / "osv"


def test_an_affected_package_is_shown_and_is_status_1(
    root: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(folder)], root) == 1
    said = capsys.readouterr().out
    for part in (
        "numpy",
        "1.9",
        str(LOCK),
        "GHSA-1",
        "CVE-2026-1",
        "2.0",
        "Reads [red]past\ufffd[31m",
    ):
        assert part in said
    assert "3 pinned packages, 1 of them affected, by 1 records, the newest of 2026-03-04" in said
    assert "\x1b" not in said


def test_without_one_the_status_is_0(
    root: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / LOCK).write_text("numpy==2.0\n")
    assert main([str(folder)], root) == 0
    assert "2 pinned packages, 0 of them affected, by 1 records" in capsys.readouterr().out


def test_a_zip_file_is_read_as_it_is(
    root: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "GHSA-1.json", "GHSA-1.json")
        archive.writestr("README.md", "no record")
    assert main([str(tmp_path / "all.zip")], root) == 1
    assert "by 1 records" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b"\xff", "no"),
        (b"[]", "the whole: it is not a mapping"),
        (b'{"id": 7}', "id: it is not a text"),
        (
            b'{"id": "X", "affected": [{"ranges": [{}]}]}',
            "affected.0.ranges.0.type: it is missing",
        ),
        (b'{"a":' * 5000, "it is nested too deeply"),
        (b'{"id": "X", "a": ' + b"9" * 5000 + b"}", "a number has more than 1000 digits"),
    ],
)
def test_a_damaged_record_is_named_and_makes_the_check_incomplete(
    root: Path, folder: Path, content: bytes, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.json").write_bytes(content)
    (root / LOCK).write_text("numpy==2.0\n")
    assert main([str(folder)], root) == 2
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("cannot read 'bad.json': ")
    assert why in said[-1]
    (root / LOCK).write_text("numpy==1.0\n")
    assert main([str(folder)], root) == 1


def test_many_damaged_records_are_cut(
    root: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(13):
        (folder / f"bad-{number}.json").write_text("")
    assert main([str(folder)], root) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "3 more files can't be read"


def test_a_zip_file_with_a_damaged_member_is_incomplete(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bad.json", json.dumps(VULNERABLE | {"id": "BAD"}))
        archive.writestr("good.json", json.dumps(VULNERABLE))
    path.write_bytes(path.read_bytes().replace(b'"BAD"', b'"bad"', 1))
    (root / LOCK).write_text("numpy==2.0\n")
    assert main([str(path)], root) == 2
    assert "cannot read 'bad.json': Bad CRC-32" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["missing", "no zip", "cut zip", "empty", "another ecosystem"])
def test_a_data_set_that_is_none_is_one_line_and_status_2(
    root: Path, folder: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    if kind == "no zip":
        source.write_text("PK?")
    elif kind == "cut zip":
        with zipfile.ZipFile(source, "w") as archive:
            archive.write(folder / "GHSA-1.json", "GHSA-1.json")
        source.write_bytes(source.read_bytes()[:-30])
    elif kind != "missing":
        source.mkdir()
    if kind == "another ecosystem":
        part = {"package": {"ecosystem": "npm", "name": "numpy"}}
        (source / "a.json").write_text(json.dumps(VULNERABLE | {"affected": [part]}))
    assert main([str(source)], root) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "Give PyPI's all.zip" in said.err


def test_a_lock_that_pins_nothing_is_one_line_and_status_2(
    root: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / LOCK).write_text("numpy>1\n")
    assert main([str(folder)], root) == 2
    assert "line 1, 'numpy>1', is no NAME==VERSION" in capsys.readouterr().err
