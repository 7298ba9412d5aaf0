"""`benchfarm doctor` on this host, as people call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.stacks.environments import STACKS_VARIABLE
from controller.contracts.checks import Check, Health, worst_first
from tests.support.command_line import installed

TOPICS = {
    *("Python", "home", "memory", "limits", "clock", "ports", "Prometheus", "adb", "compiler"),
    *("stack torch", "AMX tiles", "locks", "user namespaces", "disk", "cores"),
}


def test_this_host_is_looked_at_and_a_planted_fault_is_its_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stacks of their own take seconds each to start, by the same way as torch.
    monkeypatch.setenv(STACKS_VARIABLE, str(tmp_path / "stacks"))
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "ray-token").write_text("secret")
    (home / "ray-token").chmod(0o644)  # planted: everybody can read it
    ended = installed(home, "doctor", "--json")
    assert (ended.returncode, ended.stderr) == (1, b"")
    found = [Check.model_validate(one) for one in json.loads(ended.stdout)]
    assert {check.what for check in found} >= TOPICS | {"tokens"}
    assert found == worst_first(found)
    faults = {check.what: check for check in found if check.health is Health.MEND}
    assert "mode 644" in faults["tokens"].seen
    assert all(c.remedy for c in found if c.health in (Health.MEND, Health.HINT))
