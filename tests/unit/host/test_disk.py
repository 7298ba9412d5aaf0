from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.host.disk import out_of_room, shortage
from controller.contracts.disk import LEAST_FREE_BYTES
from controller.contracts.result import Blame
from tests.support import builders


@pytest.mark.parametrize(
    ("free", "short"), [(LEAST_FREE_BYTES, False), (LEAST_FREE_BYTES - 1, True), (0, True)]
)
def test_a_disk_is_short_below_its_limit_and_that_is_said_in_the_same_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, short: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    words = f"less than 64 MiB are free on the disk of {tmp_path}"
    assert shortage(tmp_path) == (words if short else "")


def test_a_result_stays_one_and_a_failure_is_the_hosts() -> None:
    result = builders.result()
    assert out_of_room(result, "no room") is result
    failed = out_of_room(builders.failure(Blame.WORKLOAD), "no room")
    assert failed == builders.failure(Blame.DEVICE).model_copy(
        update={"kind": "disk_full", "message": "no room; exit: it ended"}
    )
