"""`benchfarm profile diff` of a log and a trace, and its page of folders with one name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from controller.profiles.files import write
from controller.profiles.model import KernelRow, Place, PrimitiveRow
from tests.support.command_line import installed
from tests.support.planted_profile import profile, step


def test_a_log_and_a_trace_are_refused_in_one_line(tmp_path: Path) -> None:
    log, trace = tmp_path / "log", tmp_path / "trace"
    rows = step()
    inside = [replace(row, place=Place()) for row in rows if isinstance(row, PrimitiveRow)]
    write(profile(inside), log)
    write(profile(row for row in rows if isinstance(row, KernelRow)), trace)
    done = installed(tmp_path, "profile", "diff", str(log), str(trace))
    assert done.returncode == 2
    assert done.stderr.decode() == (
        f"benchfarm: cannot diff {log} and {trace}: {log} has primitives alone, and the other has "
        "none of them. Compare a log with another log, or with a profile of "
        "`benchfarm profile run`.\n"
    )


def test_folders_of_one_name_are_told_apart_on_the_page(tmp_path: Path) -> None:
    folders = [tmp_path / parent / "profile" for parent in ("a", "b")]
    for folder in folders:
        folder.parent.mkdir()
        write(profile(step()), folder)
    page = tmp_path / "diff.html"
    done = installed(tmp_path, "profile", "diff", *map(str, folders), "-o", str(page))
    assert done.returncode == 0, done.stderr
    told = page.read_text()
    assert f"<title>Profiles {folders[0]} and {folders[1]}" in told
    assert re.search(rf"<li>A: {folders[0]}</li>\s*<li>B: {folders[1]}</li>", told)
    other = tmp_path / "other"
    write(profile(step()), other)
    installed(tmp_path, "profile", "diff", str(folders[0]), str(other), "-o", str(page))
    assert re.search(r"<li>A: profile</li>\s*<li>B: other</li>", page.read_text())
