"""`benchfarm results show --provenance` walks back from a result to all that it comes from."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from controller.contracts.result import Result
from controller.contracts.run import Run
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.artefacts import announce, bring_home, copy_of, swap
from tests.support.command_line import printed_by

SHOW = ("results", "show")
KEPT = b"Result is : VALID\n"
SHA256 = hashlib.sha256(KEPT).hexdigest()
FILES = ("kept.txt", "changed.txt", "gone.txt", "damaged.txt")


def _runs() -> list[Run]:
    return store_examples.runs_for(store_examples.sweep_record())


def _told(folder: Path) -> Result:
    """Return a result that tells of everything, whose attempt left files in a folder."""
    return store_examples.result().model_copy(
        update={
            "environment": {
                "model_sha256": "11" * 32,
                "dataset_checksums": ("images sha256:22", "truth md5:33"),
                "inputs_digest": "44",
                "dataset_origin": "sha256:22 (imagenet)",
                "bundle": "litert-x86_64 55",
                "benchfarm": "0.2.0 (66)",
                "benchfarm_commit": "77",
                "threads": 2,
                "load_before": 0.25,
            },
            "artefacts": {
                "summary": str(folder / "kept.txt"),
                "trace": str(folder / "unchecked.txt"),
                "profile": str(folder / "profile"),
                "far": "/elsewhere/far.txt",
            },
            "checksums": {str(folder / name): SHA256 for name in (*FILES, "unsent.txt")},
        }
    )


def _send(home: Path, folder: Path) -> None:
    """Have the head get an attempt's files; one of which it keeps no longer, one it damages."""
    (folder / "profile").mkdir(parents=True)
    for name, content in (
        *(("kept.txt", KEPT), ("changed.txt", KEPT + b"\n"), ("unchecked.txt", b"unchecked")),
        *(("gone.txt", b"gone"), ("damaged.txt", b"damaged"), ("profile/profile.json", b"{}")),
    ):
        (folder / name).write_bytes(content)
    bring_home(home)
    run = _runs()[0].run_id
    copy_of(home, "gone.txt", run).unlink()
    swap(home, "damaged.txt", run, b"another")
    announce(home, "unsent.txt", run, attempt=2)
    shutil.rmtree(home / "agent")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a retried run that tells of everything, one of an earlier release, a failure."""
    folder = tmp_path / "agent" / "host-1" / "runs" / _runs()[0].run_id / "2"
    _send(tmp_path, folder)
    told = _told(folder)
    store = SqliteStore.open(tmp_path / "store.sqlite")
    try:
        store.save_agent(store_examples.AGENT, [store_examples.CPU, store_examples.PHONE])
        first, second, third = store.add_sweep(store_examples.sweep_record(), _runs())
        leased = store_examples.grant(first)
        lost = store_examples.lose(leased.run)
        again = store_examples.grant(lost.run, now=2040.0)
        done = store_examples.report(again.run, told, 2, 2050.0)
        plain = store_examples.grant(second)
        early = store_examples.report(plain.run, store_examples.result())
        failing = store_examples.grant(third)
        failed = store_examples.report(failing.run, store_examples.failure())
        for change in (leased, lost, again, done, plain, early, failing, failed):
            store.save_runs([change])
    finally:
        store.close()
    return tmp_path


def _run(number: int) -> str:
    return _runs()[number].run_id


def test_json_has_every_step(home: Path) -> None:
    (found,) = json.loads(printed_by(home, *SHOW, _run(0), "--provenance", "--json"))
    sweep = store_examples.sweep_record()
    assert found["sweep"]["sweep_id"] == sweep.sweep_id
    assert (found["sweep"]["name"], found["sweep"]["user"]) == ("demo", "admin")
    assert found["cell"]["key"] == _runs()[0].cell.key
    assert found["cell"]["knobs"]["dtype"] == "bf16"
    assert [(a["number"], a["state"]) for a in found["attempts"]] == [(1, "lost"), (2, "succeeded")]
    assert (found["agent"], found["host"]) == ("host-1", "host-1")
    assert found["identity"]["model_sha256"] == "11" * 32
    assert found["settings"] == {"threads": 2, "dataset_origin": "sha256:22 (imagenet)"}
    assert found["conditions"] == {"load_before": 0.25}
    assert found["not_recorded"] == []


def test_files_are_checked(home: Path) -> None:
    *_, found = json.loads(printed_by(home, *SHOW, _run(0), "--provenance", "--json"))
    files = {Path(file["path"]).name: file for file in found["files"]}
    assert {name: file["state"] for name, file in files.items()} == {
        "kept.txt": "unchanged",
        "changed.txt": "changed",
        "gone.txt": "gone",
        "damaged.txt": "unreadable",
        "unsent.txt": "elsewhere",
        "profile": "unchecked",
        "unchecked.txt": "unchecked",
        "far.txt": "elsewhere",
    }
    assert (files["kept.txt"]["names"], files["kept.txt"]["sha256"]) == (["summary"], SHA256)
    assert files["far.txt"]["sha256"] is None


def test_people_read_the_same(home: Path) -> None:
    text = printed_by(home, *SHOW, _run(0), "--provenance")
    sweep = store_examples.sweep_record().sweep_id
    assert f"run {_run(0)}, attempt 2: VALID\n" in text
    assert f"  sweep       {sweep}, submission 1 by admin on 1970-01-01 00:16 UTC\n" in text
    assert "  attempt 1   lost on host-1 by host-1: leased" in text
    assert "    dataset_checksums: images sha256:22 truth md5:33\n" in text
    counts = "1 unchanged, 1 changed, 2 unchecked, 1 gone, 1 unreadable, 2 elsewhere"
    assert f"  files       {counts}\n" in text
    assert f"    unchanged  sha256 {SHA256}  {home}" in text
    assert "    elsewhere (on host host-1)  checksum not recorded  /elsewhere/far.txt" in text
    assert "  not recorded: nothing is missing\n" in text


def test_what_is_not_recorded_is_named(home: Path) -> None:
    (found,) = json.loads(printed_by(home, *SHOW, _run(1), "--provenance", "--json"))
    assert found["not_recorded"] == [
        "version of benchfarm (benchfarm)",
        "its commit (benchfarm_commit)",
        "bundle (bundle)",
        "checksum of the model (model_sha256)",
        "checksums of the data set (dataset_checksums)",
        "digest of the inputs (inputs_digest)",
        "what vouches for the data set (dataset_origin)",
        "checksums of its files",
    ]


def test_a_failure_has_the_files_that_the_head_knows_of(home: Path) -> None:
    folder = home / "agent" / "host-1" / "runs" / _run(2) / "1"
    folder.mkdir(parents=True)
    (folder / "output.log").write_bytes(KEPT)
    bring_home(home)
    announce(home, "unsent.txt", _run(2))
    (found,) = json.loads(printed_by(home, *SHOW, _run(2), "--provenance", "--json"))
    files = {file["path"]: (file["state"], file["sha256"]) for file in found["files"]}
    assert files["1/output.log"] == ("unchanged", SHA256)
    assert files["1/unsent.txt"][0] == "elsewhere"
    assert "files of a failed attempt" not in found["not_recorded"]


def test_a_failure_has_one_too(home: Path) -> None:
    text = printed_by(home, *SHOW, _run(2), "--provenance")
    assert f"run {_run(2)}, attempt 1: failure signal\n              killed\n" in text
    assert "files of a failed attempt" in text
