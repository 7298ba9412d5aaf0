"""What `benchfarm models verify` prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

from models.mobile.store import Store
from tests.support.command_line import outcome_of


def test_a_pinned_file_that_is_gone_is_shown_and_ends_with_status_1(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Store(home / "models").pin("mosaic/full/truth", "sha256:" + "0" * 64)
    said, complaint, status = outcome_of(home, "models", "verify", "--json")
    assert (complaint, status) == ("", 1)
    found = {one["key"]: one["trouble"] for one in json.loads(said)}
    assert found["mosaic/full/truth"].startswith("cannot find mosaic/full/truth: ")
    assert "mosaic/full/samples" not in found
