"""`benchfarm sweep validate` names the devices of this host's farm that have no runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.device import RegisteredDevice
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.command_line import benchfarm

SWEEP = b"""
name: any
workload: shapes_classifier
stack: litert
scenario: single_stream
knobs: {mode: performance}
"""
NAMED = b"phone-1: no runtime for armeabi-v7a (of litert: arm64-v8a, x86_64)"


def known(home: Path, abi: str) -> None:
    """Have the farm of this home know a phone."""
    device = store_examples.PHONE.device.model_copy(update={"facts": {"abi": abi}})
    phone = RegisteredDevice.model_validate({**dict(store_examples.PHONE), "device": device})
    store = SqliteStore.open(home / "store.sqlite")
    store.save_agent(store_examples.AGENT, [phone])
    store.close()


@pytest.mark.parametrize(("abi", "named"), [("armeabi-v7a", True), ("arm64-v8a", False)])
def test_a_phone_without_a_runtime_is_named(abi: str, named: bool, tmp_path: Path) -> None:
    known(tmp_path, abi)
    done = benchfarm(tmp_path, "sweep", "validate", "-", stdin=SWEEP)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (NAMED in done.stdout) is named


def test_it_needs_no_farm(tmp_path: Path) -> None:
    done = benchfarm(tmp_path, "sweep", "validate", "-", stdin=SWEEP)
    assert (done.returncode, b"no errors" in done.stdout) == (0, True)


def test_devices_of_a_farm_elsewhere_are_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(tmp_path, "armeabi-v7a")
    monkeypatch.setenv("BENCHFARM_URL", "http://127.0.0.1:9")
    done = benchfarm(tmp_path, "sweep", "validate", "-", stdin=SWEEP)
    assert (done.returncode, NAMED in done.stdout) == (0, False)
