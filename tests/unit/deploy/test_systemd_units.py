"""The systemd units are hardened, by systemd's own count."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
FLEET = (ROOT / "docs/fleet.md").read_text()
UNPACKED = ROOT / ".deps/systemd"
"""Where `make test` puts systemd where the machine has none."""
EXPOSURE = 40
"""Tenths: the most of `systemd-analyze security`, which gives a unit without any of it above 9."""
DIRECTIVES = (
    *("NoNewPrivileges", "CapabilityBoundingSet", "RestrictSUIDSGID", "UMask"),
    *("ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "DevicePolicy"),
    *("PrivateNetwork", "PrivateUsers", "RestrictAddressFamilies", "RestrictNamespaces"),
    *("ProtectClock", "ProtectHostname", "ProtectControlGroups", "ProtectKernelModules"),
    *("ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc", "ProcSubset"),
    *("LockPersonality", "RestrictRealtime", "MemoryDenyWriteExecute", "RemoveIPC"),
    *("SystemCallArchitectures", "SystemCallFilter"),
)


def exposure_of(unit: Path) -> subprocess.CompletedProcess[str]:
    """Have systemd count what a unit is exposed to; exit status 1 if it is too much."""
    environ = dict(os.environ)
    program = shutil.which("systemd-analyze")
    if program is None:
        program = str(UNPACKED / "usr/bin/systemd-analyze")
        if not Path(program).exists():
            pytest.skip("no systemd-analyze: make test gets it from Debian's package systemd")
        libs = f"lib/{platform.machine()}-linux-gnu"
        folders = (libs, f"{libs}/systemd", f"usr/{libs}", f"usr/{libs}/systemd")
        environ["LD_LIBRARY_PATH"] = ":".join(str(UNPACKED / folder) for folder in folders)
    options = ("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}")
    return subprocess.run(
        [program, *options, str(unit)], env=environ, capture_output=True, text=True
    )


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_exposes_little(unit: Path) -> None:
    found = exposure_of(unit)
    assert found.stderr == "", "systemd knows every directive"
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_sets_each_directive_or_says_why_not(unit: Path) -> None:
    text = unit.read_text()
    left_out = " ".join(re.findall(r"^# ([A-Z]\w+(?:, [A-Z]\w+)*)(?:  |$)", text, re.MULTILINE))
    named = {*re.findall(r"^(\w+)=", text, re.MULTILINE), *re.findall(r"\w+", left_out)}
    assert [directive for directive in DIRECTIVES if directive not in named] == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_without_its_hardening_a_unit_would_not_pass(unit: Path, tmp_path: Path) -> None:
    bare = tmp_path / unit.name
    lines = unit.read_text().splitlines()
    bare.write_text("\n".join(line for line in lines if not line.startswith(DIRECTIVES)))
    assert exposure_of(bare).returncode == 1


def test_the_docs_make_users_whom_no_person_logs_in_as() -> None:
    made = re.findall(r"^# useradd .*", FLEET, re.MULTILINE)
    assert len(made) == len(UNITS)
    assert [line for line in made if "--shell /usr/sbin/nologin" not in line] == []


def test_the_docs_use_a_units_home_only_as_its_user() -> None:
    """The home is its user's alone, so that nobody else can use it by naming it."""
    homes = re.findall(r"Environment=.*BENCHFARM_HOME=(\S+)", "".join(u.read_text() for u in UNITS))
    assert set(homes) == {"/var/lib/benchfarm"}
    named = re.findall(r"(\S+ \S+)\s`?BENCHFARM_HOME=/var/lib/benchfarm", FLEET)
    assert set(named) == {"-u benchfarm"}
