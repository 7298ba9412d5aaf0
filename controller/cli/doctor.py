"""`benchfarm doctor`: what would fail on this host."""

from __future__ import annotations

import subprocess

from pydantic import ValidationError

from controller.cli.common import Json, exit_if_to_mend, home, show_checks
from controller.contracts.doctor import AgentsFacts
from controller.contracts.error_payload import ErrorPayload
from controller.platform.programs import python_module
from controller.runtime.home import Home
from controller.runtime.host_doctor import REINSTALL, checks
from controller.runtime.host_facts import host_facts


def doctor(json: Json = False) -> None:
    """Check this host and say what to do; exit status 1 while anything is to be mended.

    Looks at Python, adb, stacks, compilers, ports, permissions, clock, disk, AMX tiles, memory and
    Prometheus, and starts each of these programs once. It changes nothing.
    """
    found = checks(host_facts(home()), _agents_facts(home()))
    show_checks(found, json=json)
    exit_if_to_mend(found)


def _agents_facts(home: Home) -> AgentsFacts | ErrorPayload:
    """Return what the agents' side sees, or why it can't be asked."""
    command = python_module("agents.host_facts", str(home.path))
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    try:
        return AgentsFacts.model_validate_json(done.stdout)
    except ValidationError:
        last = (done.stderr.strip().splitlines() or ["it printed no error"])[-1]
        seen = f"it ended with status {done.returncode}: {last}"
        return ErrorPayload(kind="UserError", tried="ask it", seen=seen, remedy=REINSTALL)
