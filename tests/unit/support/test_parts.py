"""All parts of `make test` run, and the end names every failure of all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.parts import TESTS, Ended, Part, files_with, parts_of, run_all
from tests.support.slowest import SLOWEST, rank_of
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
NewPart = Callable[[str, str], Part]
GOOD = "def test_good(): pass\n"
BAD = "def test_bad(): assert 0\n"
STRAY = """
import subprocess
def test_stray(capfd):
    with capfd.disabled():
        subprocess.run(["sh", "-c", "echo 'make: *** Terminated' >&2"], check=True)
"""
CAPTURED = """
import subprocess
def test_captured(): subprocess.run(["sh", "-c", "echo kept >&2"], check=True)
"""


@pytest.fixture
def new_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewPart:
    """Make a part of one module of tests, apart from benchfarm's own settings."""
    monkeypatch.chdir(tmp_path)
    scope = "asyncio_default_fixture_loop_scope = function"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{scope}\n")

    def part(name: str, text: str) -> Part:
        file = tmp_path / f"test_{name}.py"
        file.write_text(text)
        return Part(name, ("--quiet", f"--rootdir={tmp_path}", str(file)))

    return part


def test_a_part_runs_whatever_the_former_says_and_all_failures_are_named(
    new_part: NewPart, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = "import nothing_of_this_name\n"
    first, second = new_part("first", GOOD + BAD), new_part("second", BAD)
    assert run_all([first, second, new_part("third", broken), new_part("last", GOOD)]) == 1
    _, summary = capfd.readouterr().out.split("FAILED, of the tests first and second and third")
    assert summary.splitlines()[1:] == [
        "  first: test_first.py::test_bad",
        "  second: test_second.py::test_bad",
        "  third: test_third.py",
        "  third: exit status 2: it was interrupted",
    ]


def test_nothing_is_said_of_parts_that_pass(
    new_part: NewPart, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_all([new_part("first", GOOD), new_part("second", CAPTURED)]) == 0
    assert capfd.readouterr().out.splitlines()[-1].startswith("1 passed in ")


def test_a_part_without_tests_fails(new_part: NewPart, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_all([new_part("none", ""), new_part("some", GOOD)]) == 1
    assert "  none: exit status 5: there was no test to run\n" in capfd.readouterr().out


def test_what_is_written_past_pytest_is_a_failure(
    new_part: NewPart, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_all([new_part("stray", STRAY)]) == 1
    said = capfd.readouterr()
    assert said.out.endswith("  stray: written past pytest: make: *** Terminated\n")
    assert said.err == ""


def test_a_failure_of_pytest_itself_is_said_at_the_end_beside_the_tests_that_failed(
    new_part: NewPart, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hook = "def pytest_runtest_logfinish(nodeid):\n    assert 'good' not in nodeid, 'planted'\n"
    (tmp_path / "conftest.py").write_text(hook)
    assert run_all([new_part("first", BAD + GOOD)]) == 1
    _, summary = capfd.readouterr().out.split("FAILED, of the tests first:\n")
    named, *internal, status = summary.splitlines()
    assert named == "  first: test_first.py::test_bad"
    assert all(line.startswith("  first: INTERNALERROR ") for line in internal)
    assert "AssertionError: planted" in "".join(internal)
    assert status == "  first: exit status 3: pytest itself failed"


NOT_UTF8 = """
import pytest
@pytest.mark.parametrize("number", range(4))
def test_odd(number): raise ValueError("\\udcff")
"""


def test_a_failure_whose_text_is_no_utf8_is_told_and_loses_no_other(
    new_part: NewPart, capfd: pytest.CaptureFixture[str]
) -> None:
    part = new_part("first", NOT_UTF8)
    assert run_all([Part(part.name, (*part.options, "--numprocesses=1"))]) == 1
    said, summary = capfd.readouterr().out.split("FAILED, of the tests first:\n")
    assert said.count("ValueError: \\udcff\n") >= 4
    assert summary.splitlines() == [f"  first: test_first.py::test_odd[{n}]" for n in range(4)]


def test_a_process_of_tests_that_dies_is_named_with_its_test(
    new_part: NewPart, capfd: pytest.CaptureFixture[str]
) -> None:
    part = new_part("first", GOOD + "def test_dying():\n    import os\n    os._exit(1)\n")
    at_once = Part(part.name, (*part.options, "--numprocesses=1", "--max-worker-restart=0"))
    assert run_all([at_once]) == 1
    assert "  first: test_first.py::test_dying\n" in capfd.readouterr().out


def test_much_that_is_written_past_pytest_is_cut() -> None:
    ended = Ended(Part("one", ()), 0, (), tuple(map(str, range(23))))
    assert ended.failures()[-2:] == [
        "one: written past pytest: 19",
        "one: written past pytest: 3 more lines",
    ]


def test_a_status_that_names_no_test_is_a_failure() -> None:
    assert Ended(Part("one", ()), -9, (), ()).failures() == ["one: exit status -9: see above"]
    assert Ended(Part("one", ()), 1, (), ()).failures() == ["one: exit status 1: see above"]


def test_tests_that_are_terminated_end_and_no_other_part_begins(tmp_path: Path) -> None:
    for name, text in (
        ("slow", "import time\ndef test_slow(): print('begun', flush=True); time.sleep(600)\n"),
        ("after", GOOD),
    ):
        (tmp_path / f"test_{name}.py").write_text(text)
    script = (
        "import sys; from tests.support.parts import *\n"
        "parts = [Part(name, ('-s', '--rootdir=.', f'test_{name}.py')) for name in sys.argv[1:]]\n"
        "try: run_all(parts)\n"
        "except Interrupted: print('interrupted')\n"
    )
    command = [sys.executable, "-P", "-c", script, "slow", "after"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, cwd=tmp_path, text=True) as process:
        assert process.stdout
        assert any("begun" in line for line in process.stdout)
        process.terminate()
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert said.endswith("interrupted\n")
    assert "test_after" not in said


def test_the_parts_leave_no_test_out() -> None:
    """Only files that these parts collect may hold tests of their marks: tests/conftest.py."""
    at_once, farms, alone = parts_of("long")
    assert at_once.options[: at_once.options.index("-m")] == (*files_with("long"),)
    assert "long and not farm and not alone" in at_once.options
    assert farms.options[: farms.options.index("-m")] == (*files_with("long", "farm"),)
    assert "long and farm" in farms.options
    assert alone.options == (*files_with("long", "alone"), "-m", "long and alone")
    assert parts_of("not long")[0].options[:2] == ("-m", "not long and not farm and not alone")


def test_the_files_of_a_mark_are_those_that_name_it() -> None:
    named = set(files_with("long", "farm"))
    assert "tests/integration/test_fleet.py" in named
    assert named < set(files_with("long"))
    assert "tests/integration/test_ladder.py" in set(files_with("long")) - named
    assert all(Path(ROOT, file).is_file() for file in named)


def test_a_test_whose_file_does_not_name_its_mark_is_refused(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "marks.py").write_text("import pytest\nhere = getattr(pytest.mark, 'long')\n")
    (tmp_path / "test_it.py").write_text("from marks import here\n@here\ndef test_it(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\npythonpath = .\n")
    command = [sys.executable, "-P", "-m", "pytest", f"--rootdir={tmp_path}", "-c", "pytest.ini"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "test_it.py::test_it is marked long, but its file does not" in done.stdout + done.stderr


def test_what_takes_longest_is_given_out_first() -> None:
    assert len(set(SLOWEST)) == len(SLOWEST)
    modules = [TESTS / name for name in SLOWEST]
    assert all(module.is_file() for module in modules)
    assert sorted([Path(__file__), *reversed(modules)], key=rank_of) == [*modules, Path(__file__)]
    for part in parts_of("not long")[:2]:
        assert {"--dist=loadscope", "--no-loadscope-reorder"} < set(part.options)
