"""With what environment an adb server is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.remotes.adb.server import SERVER_MARKER, server_environment

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("folder", ["agents", "controller", "deploy", "tests"])
def test_nothing_starts_a_server_that_looks_for_emulators(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        source = path.read_text()
        is_sh = 'executable="/bin/sh"' in source  # called as a server is, and none
        if ('"nodaemon"' in source or '"fork-server"' in source) and not is_sh:
            assert '"ADB_EMU": "0"' in source or "server_environment(" in source, path


def test_a_server_gets_nothing_of_the_user_s_adb() -> None:
    users = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "ANDROID_SERIAL": "R58M",
        "ADB_VENDOR_KEYS": "/x",
        "ANDROID_ADB_SERVER_PORT": "5037",
    }
    own = server_environment(users, Path("/agent/adb"), None)
    assert own["PATH"] == "/bin"
    assert own["HOME"] == own[SERVER_MARKER] == "/agent/adb"
    assert own["ADB_EMU"] == "0", "else it looks for emulators, and takes other users' for phones"
    assert not {"ANDROID_SERIAL", "ADB_VENDOR_KEYS", "ANDROID_ADB_SERVER_PORT"} & own.keys()
    with_key = server_environment(users, Path("/agent/adb"), Path("/home/me/.android"))
    assert with_key["ADB_VENDOR_KEYS"] == "/home/me/.android"
