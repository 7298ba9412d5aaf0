"""The errors of benchfarm; each carries its facts and survives pickle (they cross Ray).

BenchfarmError
├── UserError                  something the caller can put right; the CLI exits with 2
│   ├── SweepInvalid           a sweep that can't be read or can't be run
│   ├── SelectorInvalid        a device selector that can't be parsed
│   ├── NoMatchingDevice       a selector that no registered device satisfies
│   ├── NotFound               a name that no sweep, run or device has
│   ├── Incomparable           things that can't be compared
│   ├── FarmUnavailable        the farm is not running, or did not answer
│   │   ├── FarmRestarting     it has ended and is restarting
│   │   └── FarmSilent         its controller is running but does not answer
│   ├── HomeUnusable           BENCHFARM_HOME can't hold the farm's state
│   ├── PhoneUnavailable       a phone that can't be started, reached or used
│   │   ├── AdbUnavailable     no adb server is running, and none can be started
│   │   │   └── AdbMissing     the program `adb` is not installed
│   │   └── PhoneClaimedTwice  one phone that can be reached in two ways
│   ├── DeviceRefused          a device that the controller refuses
│   ├── DeviceBooked           a reservation that overlaps another user's
│   ├── LabelOfAgent           a label that can't be removed, since the device's agent sets it
│   ├── NotProbed              a device that a probe can't release
│   ├── NotAllowed             a call that the caller's token does not permit
│   └── OverQuota              a request beyond the user's quota
├── AgentRefused               the controller turned an agent away
│   ├── VersionMismatch        agent and controller come from different releases
│   ├── SharedMachineId        two hosts speak under one id
│   ├── AgentRevoked           a person has shut the agent out
│   └── UnknownAgent           the agent must register (again) before it may ask
├── UnknownAttempt             a report about an attempt that was never handed out
├── StoreUnavailable           the store can't be read or written: full disk, I/O error, damage
│   └── StoreDamaged           its file is damaged beyond what SQLite can read
├── StoreConflict              a write that contradicts what is stored
└── WorkerFault                a run that could not be done; becomes the Failure of its attempt

These are the errors that more than one package knows. One whose text is all that leaves its
package stands there: BundleUnbuildable (agents/inference/bundle/recipe.py), ControllerAway
(agents/link.py), those of mobile tasks (models/mobile/errors.py), of agents/remotes, and of the
virtual phone (agents/virtual_phone/errors.py).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from controller.contracts.result import Failure


def _rebuild(kind: type[BenchfarmError], facts: dict[str, object]) -> BenchfarmError:
    return kind(**facts)


@dataclass(eq=False)
class BenchfarmError(Exception):
    """The root; subclasses are dataclasses whose fields are the facts."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields(self)})


@dataclass(eq=False)
class UserError(BenchfarmError):
    """What failed, why, and what to do; the command line prints it and exits with status 2.

    It reads as one line: `cannot read sweep.yaml: line 3: key "name" appears twice. Remove one.`
    """

    tried: str
    """What could not be done, as it follows "cannot": `read sweep.yaml`."""
    seen: str
    """Why; no full stop at its end."""
    remedy: str
    """What to do, as one sentence."""

    def __str__(self) -> str:
        return " ".join(f"cannot {self.tried}: {self.seen}. {self.remedy}".split())


class SweepInvalid(UserError):
    """A sweep that can't be read or can't be run."""


class SelectorInvalid(UserError):
    """A device selector that can't be parsed."""


class NoMatchingDevice(UserError):
    """A selector that no registered device satisfies; `seen` names what excluded each."""


class NotFound(UserError):
    """A name that no sweep, run or device has."""


class Incomparable(UserError):
    """Things that can't be compared: of different kinds, or virtual beside real."""


class FarmUnavailable(UserError):
    """The farm is not running, or did not answer."""


class FarmRestarting(FarmUnavailable):
    """The farm has ended and is restarting."""


class FarmSilent(FarmUnavailable):
    """The farm's controller is running but does not answer."""


class HomeUnusable(UserError):
    """BENCHFARM_HOME can't hold the farm's state."""


class PhoneUnavailable(UserError):
    """A phone that can't be started, reached or used."""


class AdbUnavailable(PhoneUnavailable):
    """No adb server is running, and none can be started."""


class AdbMissing(AdbUnavailable):
    """The program `adb` is not installed."""


class PhoneClaimedTwice(PhoneUnavailable):
    """One phone that can be reached in two ways; `seen` names both."""


class DeviceRefused(UserError):
    """A device that the controller refuses: another agent has it, or its id is taken."""


class DeviceBooked(UserError):
    """A reservation that overlaps another user's."""


class LabelOfAgent(UserError):
    """A label that can't be removed, since the device's agent sets it."""


class NotProbed(UserError):
    """A device that a probe can't release: not in quarantine, held by a person, or away."""


class NotAllowed(UserError):
    """A call that the caller's token does not permit: another user's sweep, or an admin command."""


class OverQuota(UserError):
    """A request beyond the user's quota of open runs or of stored bytes."""


@dataclass(eq=False)
class AgentRefused(BenchfarmError):
    """The controller turned an agent away; its text says why, and what to do."""

    agent_id: str


@dataclass(eq=False)
class VersionMismatch(AgentRefused):
    """Agent and controller come from different releases."""

    agent_version: str
    controller_version: str

    def __str__(self) -> str:
        return (
            f"agent {self.agent_id} runs benchfarm {self.agent_version}, the controller "
            f"{self.controller_version}. Install the controller's version on the agent's host."
        )


@dataclass(eq=False)
class SharedMachineId(AgentRefused):
    """Two hosts with one id, as copies of a disk image have; or one host before and after a boot.

    host, other_host: names with boot ids, since copies may also share a name.
    """

    host: str
    other_host: str
    again_in_s: float
    """Seconds after which the other host counts as gone if it stays silent."""

    def __str__(self) -> str:
        return (
            f"agent {self.agent_id} of {self.host}: host {self.other_host} has the same machine "
            f"id, and counts as connected for another {self.again_in_s:.1f} s. Give one of them "
            "its own with `rm /etc/machine-id && systemd-machine-id-setup`."
        )


@dataclass(eq=False)
class AgentRevoked(AgentRefused):
    """A person has shut the agent out."""

    who: str
    why: str

    def __str__(self) -> str:
        return (
            f"agent {self.agent_id} was revoked by {self.who} ({self.why}). "
            f"Run `benchfarm agent admit {self.agent_id}` to let it in again."
        )


@dataclass(eq=False)
class UnknownAgent(AgentRefused):
    """The agent must register (again) before it may ask for work."""

    incarnation: str

    def __str__(self) -> str:
        return f"agent {self.agent_id} ({self.incarnation}) is not registered"


@dataclass(eq=False)
class UnknownAttempt(BenchfarmError):
    """A report about an attempt that was never handed out."""

    run_id: str
    attempt: int

    def __str__(self) -> str:
        return f"run {self.run_id} has no attempt {self.attempt}"


@dataclass(eq=False)
class StoreUnavailable(BenchfarmError):
    """The store can't be read or written (full disk, I/O error, damage); nothing was changed."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"store {self.path}: {self.reason}"


@dataclass(eq=False)
class StoreDamaged(StoreUnavailable):
    """The store's file is damaged beyond what SQLite can read; nothing was changed."""

    def __str__(self) -> str:
        return f"store {self.path}: {self.reason}. Run `benchfarm store check` to see what is left."


@dataclass(eq=False)
class StoreConflict(BenchfarmError):
    """A write that contradicts what is stored; nothing was changed."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"store {self.path}: {self.reason}"


@dataclass(eq=False)
class WorkerFault(BenchfarmError):
    """A run that could not be done; it becomes the Failure of its attempt."""

    failure: Failure

    def __str__(self) -> str:
        return self.failure.message
