"""Profiles of very many kernels: how long their differences take, and the page that shows them."""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from pathlib import Path

import pytest

from controller.profiles.files import write
from tests.support.chromium import chromium
from tests.support.command_line import installed
from tests.support.figures import Figure
from tests.support.opened_pages import INTERACTIVE_S, core_s_until_idle
from tests.support.planted_profile import Rows, kernel, primitive, profile

pytestmark = [pytest.mark.integration, pytest.mark.long]

KERNELS = 100_000
MODULE, OPS, PRIMITIVES = 20, 500, 4
"""Kernels in a module; operations; of so many kernels, one has a primitive."""
DIFF_S = 3.0


def rows(*, changed: bool) -> Rows:
    """Return a step of KERNELS; changed: other sizes of a seventh, and two slow operations."""
    made: Rows = []
    for n in range(KERNELS):
        op, width = n % OPS, 8 if changed and n % 7 == 0 else 16
        row = kernel(
            f"aten::op{op}",
            1e-3 if changed and op in (3, 4) else 1e-5,
            phase=("forward", "backward")[n % 2],
            module=f"stage{n // 10_000}.body.{n // MODULE}",
            dims=f"[[{2 + n % 5}, 16, 32, {width}]]",
        )
        if n % PRIMITIVES == 0:
            row = replace(row, primitive_s=8e-6)
            made.append(primitive(row.place, "convolution", 8e-6, problem=f"mb2_iw{width}"))
        made.append(row)
    return made


def test_many_kernels_are_compared_in_seconds(
    tmp_path: Path, figure: Figure, pytestconfig: pytest.Config
) -> None:
    """Times the command as a whole: what it waits, and the CPU of its process."""
    if not pytestconfig.getoption("figures"):
        pytest.skip("a figure of half a minute: `make bench` measures it")
    folders = [tmp_path / name for name in ("a", "b")]
    for folder, changed in zip(folders, (False, True), strict=True):
        write(profile(rows(changed=changed)), folder)
    command = ("profile", "diff", *map(str, folders))
    began, core_s = time.monotonic(), _children_s()
    done = installed(tmp_path, *command)
    took_s, core_s = time.monotonic() - began, _children_s() - core_s
    assert done.returncode == 0, done.stderr
    assert "aten::op3: same work, 100.00× the time" in done.stdout.decode()
    figure("seconds of `profile diff` of two profiles of 100,000 kernels", took_s, "3")
    figure("its CPU seconds", core_s, "3")
    assert took_s < 10 * DIFF_S
    page = tmp_path / "diff.html"
    assert installed(tmp_path, *command, "-o", str(page)).returncode == 0
    with chromium() as browser:
        seconds = core_s_until_idle(browser, page)
    figure("CPU seconds until their page is idle", seconds, "2")
    assert seconds < 10 * INTERACTIVE_S


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
