"""What can't be read whole gives no figure and no validity."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.programs.command_reading import MAX_KEPT, PRINTED, Reading, ReadOrder, read
from agents.remotes.remote import STDERR_BYTES
from controller.contracts.command import OUTPUT, STDERR, STDOUT, Command
from controller.contracts.result import Blame

NOISE = f"{'x' * 1023}\n"


def command(**changes: object) -> Command:
    """Return a program that prints `t=1`, changed by keyword."""
    keys: dict[str, object] = {
        "arguments": ["{file:program}"],
        "files": {"program": {"executable": True}},
        "timeout_s": 10,
        "figures": {"latency": {"unit": "s", "pattern": r"t=(?P<value>\S+)", "select": "last"}},
        "result": "latency",
        "rules": "its own",
    }
    return Command.model_validate(keys | changes)


def reading(folder: Path, of: Command, stdout: str = "", stderr: str = "") -> Reading:
    (folder / PRINTED[STDOUT]).write_text(stdout)
    (folder / PRINTED[STDERR]).write_text(stderr)
    return read(ReadOrder(command=of, folder=folder))


def noise(size: int) -> str:
    return (NOISE * (size // len(NOISE) + 1))[-size:]


def test_an_output_of_the_limit_is_read_to_its_end(tmp_path: Path) -> None:
    end = "t=2\n"
    found = reading(tmp_path, command(), f"t=1\n{noise(MAX_KEPT - 8)}{end}")
    assert found.unreadable is None
    assert found.metrics["latency"].value == 2.0


def test_a_longer_output_is_refused_with_its_end(tmp_path: Path) -> None:
    found = reading(tmp_path, command(invalid=["bad"]), f"t=1\n{noise(MAX_KEPT)}the end\n")
    assert found.metrics == {}
    assert found.unreadable
    assert (found.unreadable.blame, found.unreadable.kind) == (Blame.WORKLOAD, "output")
    assert found.unreadable.message == (
        "cannot read the output: stdout has more than 32 MiB. Write less, or write the rest to "
        "another file in {output}."
    )
    assert found.unreadable.output.rstrip().endswith("\nthe end")


def test_a_failure_that_a_longer_output_tells_is_named(tmp_path: Path) -> None:
    known = {"pattern": "NO NPU", "kind": "no_npu", "blame": "device", "remedy": "Choose another."}
    found = reading(tmp_path, command(failures=[known]), f"{noise(MAX_KEPT)}t=1\nNO NPU\n")
    assert found.known
    assert (found.known.kind, found.metrics) == ("no_npu", {})


def test_a_longer_file_gives_no_figure(tmp_path: Path) -> None:
    (tmp_path / OUTPUT).mkdir()
    (tmp_path / OUTPUT / "own.txt").write_text(f"t=1\n{noise(MAX_KEPT)}t=2\n")
    found = reading(tmp_path, command(reads="own.txt"))
    assert found.metrics == {}
    assert found.unreadable
    assert "cannot read figure latency: own.txt has more than 32 MiB" in found.unreadable.message


@pytest.mark.parametrize(
    ("stderr", "value"),
    [
        (f"{'9' * (STDERR_BYTES - 6)}\nt=4 \n", 4.0),
        (f"t=5\n{'x' * (STDERR_BYTES - 9)}\nt=4\n", 4.0),
        (f"t=5\n{'x' * (STDERR_BYTES - 10)}\n", 5.0),
    ],
)
def test_the_first_line_of_a_full_standard_error_may_be_cut(
    tmp_path: Path, stderr: str, value: float
) -> None:
    figure = {"unit": "s", "pattern": r"(?:t=|^)(?P<value>\d+)", "select": "first"}
    found = reading(tmp_path, command(figures={"latency": figure}, reads="stderr"), "", stderr)
    assert found.metrics["latency"].value == value
