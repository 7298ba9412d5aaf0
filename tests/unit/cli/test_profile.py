"""`benchfarm profile import, show, export and report`, on a recorded log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli.profile import app
from controller.contracts.errors import UserError
from controller.profiles.capturing import profile_of
from controller.profiles.files import write
from tests.support.planted_profile import profile as profile_by_hand
from tests.support.planted_profile import step
from tests.support.planted_step import planted

LOG = Path(__file__).parents[1] / "profiles" / "logs" / "onednn-3.12.log"


def said(*arguments: str) -> str:
    """Return what a command prints, which it does without an error."""
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported") / "log"
    out = said("import", str(LOG), "-o", str(folder), "--top", "2")
    assert "oneDNN 3.12" in out
    assert re.search(
        r"^read 0\.\d MB in \d\.\d\d s, \d\.\d\d s of a core: \d+ MB/s; peak memory \d+ MB$",
        out,
        re.MULTILINE,
    )
    assert re.search(r"and \d+ more with", out)
    return folder


def test_what_was_imported_is_shown_again(imported: Path) -> None:
    shown = said("show", str(imported))
    assert "convolution" in shown
    assert "FWD_D" in shown
    summary = json.loads(said("show", str(imported), "--json"))
    assert summary["libraries"][0].startswith("3.12")
    assert summary["onednn_s"] > 0
    assert summary["top"][0]["seconds"] == max(one["seconds"] for one in summary["top"])


def test_it_is_exported_for_other_tools(imported: Path, tmp_path: Path) -> None:
    stacks, trace, batches = tmp_path / "s.txt", tmp_path / "t.json", tmp_path / "batches"
    assert said("export", str(imported), "collapsed", "-o", str(stacks)).endswith(f"{stacks}\n")
    assert "step;" in stacks.read_text()
    said("export", str(imported), "chrome", "-o", str(trace))
    assert json.loads(trace.read_text())["traceEvents"]
    told = said("export", str(imported), "benchdnn", "-o", str(batches))
    assert f"benchdnn --conv --mode=P --batch={batches}/conv.batch" in told
    assert {path.name for path in batches.iterdir()} >= {"conv.batch", "reorder.batch"}


def test_a_page_is_written(imported: Path, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    assert said("report", str(imported), "-o", str(page)) == f"report written to {page}\n"
    assert "<title>Profile log – benchfarm</title>" in page.read_text()


def test_a_log_names_what_it_does_not_know(imported: Path) -> None:
    shown = said("show", str(imported))
    assert shown.startswith("file onednn-3.12.log, threads 2, onednn 3.12.0, date 2026-11-21T")
    assert "\nnot known: workload, stack, device, cpu_model, malloc, torch, knobs\n" in shown
    assert "time in oneDNN, in all" in shown


def test_steps_can_be_given(tmp_path: Path) -> None:
    out = said("import", str(LOG), "--steps", "2", "-o", str(tmp_path / "log"))
    assert "time in oneDNN, a step" in out
    assert "note: 2 steps, as given with --steps" in out
    assert json.loads(said("show", str(tmp_path / "log"), "--json"))["steps"] == 2


def test_what_is_invalid_is_shown_and_exported_so(tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    write(profile_of(planted(tmp_path, verbose=(3.79,) * 3)), folder)
    assert "INVALID: a step took 1.137 s under oneDNN's verbose mode" in said("show", str(folder))
    assert json.loads(said("show", str(folder), "--json"))["validity"] == "INVALID"
    arguments = ("export", str(folder), "collapsed", "-o", str(tmp_path / "stacks"))
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stderr.startswith("the profile is INVALID: a step took 1.137 s under oneDNN's")


def test_two_profiles_are_compared(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    write(profile_by_hand(step()), a)
    write(profile_by_hand(step()[:-1], threads=1), b)
    told = said("diff", str(a), str(b))
    assert f"A: {a}, B: {b}\nthe whole: no difference shown: B took 0.92× the time of A" in told
    assert "differs: threads 2 → 1\n−40 ms  aten::add_: only in A, 2 calls, optimizer" in told
    assert re.search(r"│ optimizer +│ +40 ms │ +0 ms │ +−40 ms │ 0.00 │ +8.0% → 0.0% │", told)
    assert re.search(r"│ forward +│ +460 ms │ +460 ms │ +\+0 ms │ 1.00 │ 92.0% → 100.0% │", told)
    page = tmp_path / "diff.html"
    found = json.loads(said("diff", str(a), str(b), "--json", "-o", str(page)))
    assert "aten::add_: only in A, 2 calls" in page.read_text()
    assert found["changes"][0]["kind"] == "only in A"
    assert "no difference shown" in said("diff", str(a), str(a))


def test_a_profile_gives_advice(tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    write(profile_by_hand(step(), knobs={"fused_optimizer": False}, load_s=0.2), folder)
    told = said("advise", str(folder), "--top", "1")
    assert "\n−100 ms [0 ms, 200 ms], 14.3%  data loading: load batches beside the step" in told
    found = json.loads(said("advise", str(folder), "--json"))
    assert found["whole_s"] == pytest.approx(0.7)
    remedies = [one["remedy"] for one in found["advice"]]
    assert {"kind": "knob", "name": "fused_optimizer", "value": True} in remedies
    page = tmp_path / "advice.html"
    assert json.loads(said("advise", str(folder), "--json", "-o", str(page))) == found
    assert "Advice for profile" in page.read_text()
    with pytest.raises(UserError, match="Name a file that you can write"):
        said("advise", str(folder), "-o", str(tmp_path / "none" / "advice.html"))


def test_steps_are_not_compared_with_what_has_none(imported: Path, tmp_path: Path) -> None:
    of_steps = tmp_path / "steps"
    write(profile_by_hand(step()), of_steps)
    with pytest.raises(UserError, match=r"Import .*log again, with --steps N\."):
        said("diff", str(of_steps), str(imported))
