"""`benchfarm doctor`: what would fail on this host."""

from __future__ import annotations

from controller.cli.common import Json, exit_if_to_mend, home, show_checks
from controller.contracts.doctor import AgentsFacts, HostRequest
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import UserError
from controller.platform.helper import Helper
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
    helper = Helper(python_module("agents.host_facts"), "ask it", remedy=REINSTALL, quiet=True)
    try:
        return helper.ask(HostRequest(home=home.path), AgentsFacts)
    except UserError as error:
        return ErrorPayload.of(error)
