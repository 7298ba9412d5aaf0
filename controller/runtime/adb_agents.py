"""This host's agents, found by the status files of their adb servers, and commands to them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.contracts.adb_status import AdbStatus, PhoneCommand, PhoneResult, PhoneVerb
from controller.contracts.documents import read_json
from controller.contracts.errors import FarmUnavailable, HomeUnusable, PhoneUnavailable, UserError
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.helper import Helper
from controller.platform.programs import python_module
from controller.runtime.home import Home

ADB_START_S = 20.0
RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class AdbAgent:
    """An agent of this host and one of its adb servers."""

    status_file: Path

    @property
    def folder(self) -> Path:
        """The folder of the agent's adb servers."""
        return self.status_file.parent

    def read(self) -> AdbStatus:
        """Return the agent's current status; raises FarmUnavailable if it has just ended.

        Raises HomeUnusable if its file is damaged.
        """
        try:
            return read_json(AdbStatus, self.status_file)
        except FileNotFoundError as error:
            raise no_agent(self.status_file) from error
        except UNREADABLE as error:
            seen, remedy = f"it is damaged: {reason(error)}", "Delete it; the agent writes it anew."
            raise HomeUnusable(f"read {self.status_file}", seen, remedy) from error

    def ask(self, verb: PhoneVerb, phone: str, *more: str, secret: str = "") -> PhoneResult:
        """Run a command for a phone of its server; raises PhoneUnavailable.

        secret: input that no list of processes may show.
        """
        command = PhoneCommand(
            verb=verb, server=str(self.read().server), phone=phone, more=more, secret=secret
        )
        helper = Helper(
            python_module("agents.phone_command"),
            f"run the command {verb} for phone {phone}",
            remedy="See the agent's log.",
            kind=PhoneUnavailable,
            quiet=True,
        )
        return helper.ask(command, PhoneResult)


def agents_here(home: Home) -> list[AdbAgent]:
    """Return this host's agent once for each of its adb servers, at least one.

    Waits a little, since a server starts after its agent. Raises FarmUnavailable, or
    PhoneUnavailable if no server can be used.
    """
    give_up = time.monotonic() + ADB_START_S
    while home.cluster() is not None:
        found = {agent: agent.read() for agent in map(AdbAgent, home.adb_statuses())}
        complaints = [status.complaint for status in found.values() if status.complaint]
        if there := [agent for agent, status in found.items() if status.server]:
            return there
        if complaints:
            raise complaints[0].error()
        if time.monotonic() >= give_up:
            break
        time.sleep(RETRY_S)
    raise no_agent(home.path)


def chosen(tried: str, agents: Sequence[AdbAgent], server: str | None) -> AdbAgent:
    """Return the agent with the adb server that the user named, or with the only one.

    Raises UserError.
    """
    known = {str(agent.read().server): agent for agent in agents}
    if server is None and len(known) == 1:
        return agents[0]
    if server in known:
        return known[server]
    names = ", ".join(sorted(known))
    seen = f"this host's agent uses the adb server{'s' * (len(known) > 1)} {names}"
    raise UserError(tried, seen, "Choose one with `--adb-server SERVER`.")


def no_agent(place: Path) -> FarmUnavailable:
    """Return the error for a place without a running agent."""
    tried = f"find the adb server of {place}"
    return FarmUnavailable(tried, "no agent with one is up here", "Run `benchfarm up`.")
