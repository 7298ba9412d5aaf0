"""The user's command that switches a phone's power off and on."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from agents.host.user_command import LINE_BYTES
from agents.phones.recovery.power_cycle import PowerCycle
from controller.cli.common import parse_command
from controller.contracts.errors import UserError
from tests.support.processes import is_dead
from tests.support.waiting import eventually


async def test_it_is_told_which_phone_and_runs_without_a_shell(tmp_path: Path) -> None:
    said = tmp_path / "said"
    code = f"import os, sys; open({str(said)!r}, 'w').write('|'.join(sys.argv[1:]))"
    code += "; sys.exit(os.environ['BENCHFARM_PHONE_SERIAL'] != 'A;$(B)')"
    command = PowerCycle((sys.executable, "-c", code, "-p", "{serial}", "$HOME *"))
    assert await command.run("A;$(B)") == ""
    assert said.read_text() == "-p|A;$(B)|$HOME *"


async def test_a_failure_is_told_with_its_last_line() -> None:
    command = PowerCycle(("sh", "-c", r"echo first; printf 'No \033[1mhub\n\n' >&2; exit 3"))
    assert await command.run("P1") == "exit status 3: No ?[1mhub"
    loud = PowerCycle(("sh", "-c", "yes | head -c 100000 | tr -d '\\n'; kill -9 $$"))
    assert await loud.run("P1") == f"signal 9: {'y' * LINE_BYTES}"
    assert (
        await PowerCycle(("/nowhere/hub",)).run("P1") == "/nowhere/hub: No such file or directory"
    )


async def test_hung_it_is_killed_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! $$ >{pids}; echo waiting; wait"
    assert await PowerCycle(("sh", "-c", script), 0.3).run("P1") == "killed after 0.3 s: waiting"
    started = [int(pid) for pid in pids.read_text().split()]
    eventually(lambda: not any(map(is_alive, started)), "both have been killed")


def is_alive(pid: int) -> bool:
    try:
        return not is_dead(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def test_what_the_user_writes_is_parted_as_a_shell_would_and_checked() -> None:
    option = "--phone-power-cycle"
    program, *words = parse_command(option, "sh -c 'hub {serial}' x")
    assert Path(program).is_absolute()
    assert words == ["-c", "hub {serial}", "x"]
    assert parse_command(option, None) == ()
    for text, seen in (
        *(("uhubctl 'x", "No closing quotation"), ("", "it is empty")),
        ("no-such-hub -a cycle", "there is no such program"),
    ):
        with pytest.raises(UserError, match=f"cannot use {option} .*{seen}"):
            parse_command(option, text)
