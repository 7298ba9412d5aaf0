"""The errors of benchfarm; each carries its facts and survives pickle (they cross Ray).

BenchfarmError
├── UserError                  something the caller can put right; the CLI exits with 2
│   ├── SweepInvalid           a sweep file that can't be read, or says what can't be
│   ├── SelectorInvalid        a device selector that can't be parsed
│   ├── NoMatchingDevice       a selector that no registered device satisfies
│   ├── NotFound               a sweep, run or device by a name nobody has
│   ├── Incomparable           things that can't be set against each other
│   ├── FarmUnavailable        the farm is not running, or did not answer
│   │   ├── FarmRestarting     it has ended, and is being started again
│   │   └── FarmSilent         its controller is there, and does not answer
│   ├── HomeUnusable           BENCHFARM_HOME can't hold the farm's state
│   ├── PhoneUnavailable       a phone that can't be started, reached or used
│   │   ├── AdbUnavailable     there is no adb server to talk to, and none can be started
│   │   │   └── AdbMissing     the program `adb` is not installed
│   │   └── PhoneClaimedTwice  one phone that can be reached in two ways
│   ├── DeviceRefused          a device that the controller does not take from an agent
│   ├── DeviceBooked           a reservation that overlaps another user's
│   ├── LabelOfAgent           a label that its agent gives, and that was to be taken away
│   ├── NotProbed              a device that no probe would let out of quarantine
│   ├── NotAllowed             what this caller's token does not open
│   └── OverQuota              more open runs, or more of the store, than one user may have
├── AgentRefused               the controller turned an agent away
│   ├── VersionMismatch        agent and controller come from different releases
│   ├── SharedMachineId        two hosts speak under one id
│   ├── AgentRevoked           a person has shut the agent out
│   └── UnknownAgent           the agent has to register (again) before it may ask
├── UnknownAttempt             a report about an attempt that was never handed out
├── StoreUnavailable           the store could not read or write: full disk, I/O error, damage
│   └── StoreDamaged           its file is damaged, and SQLite can't make sense of it
├── StoreConflict              what was to be kept contradicts what is stored
└── WorkerFault                a run could not be done; becomes the Failure of its attempt

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
    """A sweep file that can't be read, or that says what can't be."""


class SelectorInvalid(UserError):
    """A device selector that can't be parsed."""


class NoMatchingDevice(UserError):
    """A selector that no registered device satisfies; `seen` names what excluded each."""


class NotFound(UserError):
    """A sweep, run or device by a name nobody has."""


class Incomparable(UserError):
    """Things that can't be set against each other: of two kinds, or virtual beside real."""


class FarmUnavailable(UserError):
    """The farm is not running, or did not answer."""


class FarmRestarting(FarmUnavailable):
    """The farm has ended, and is being started again."""


class FarmSilent(FarmUnavailable):
    """The farm's controller is there, and does not answer."""


class HomeUnusable(UserError):
    """BENCHFARM_HOME can't hold the farm's state."""


class PhoneUnavailable(UserError):
    """A phone that can't be started, reached or used."""


class AdbUnavailable(PhoneUnavailable):
    """There is no adb server to talk to, and none can be started."""


class AdbMissing(AdbUnavailable):
    """The program `adb` is not installed."""


class PhoneClaimedTwice(PhoneUnavailable):
    """One phone that can be reached in two ways; `seen` names both."""


class DeviceRefused(UserError):
    """A device that the controller does not take from an agent: another has it, or its id."""


class DeviceBooked(UserError):
    """A reservation that overlaps another user's."""


class LabelOfAgent(UserError):
    """A label that was to be taken away, and that the device's agent gives it."""


class NotProbed(UserError):
    """A device that no probe would let out of quarantine: it is in none, or a person's, or away."""


class NotAllowed(UserError):
    """What this caller's token does not open: another's sweep, or the administrator's verbs."""


class OverQuota(UserError):
    """More open runs, or more of the store, than one user may have."""


@dataclass(eq=False)
class AgentRefused(BenchfarmError):
    """The controller turned an agent away."""

    agent_id: str


@dataclass(eq=False)
class VersionMismatch(AgentRefused):
    """Agent and controller come from different releases."""

    agent_version: str
    controller_version: str

    def __str__(self) -> str:
        return (
            f"cannot register agent {self.agent_id}: it runs benchfarm {self.agent_version}, the "
            f"controller {self.controller_version}. "
            "Install the controller's version on the agent's host."
        )


@dataclass(eq=False)
class SharedMachineId(AgentRefused):
    """Two hosts speak under one id, as copies of one disk image do; or one, since it was rebooted.

    host, other_host: with their boots, since copies may have one name, too.
    """

    host: str
    other_host: str
    again_in_s: float
    """By then the other one is known to be gone, if it is."""

    def __str__(self) -> str:
        return (
            f"cannot register agent {self.agent_id} of {self.host}: host {self.other_host} has "
            f"the same machine id, and counts as connected for another {self.again_in_s:.1f} s. "
            "Give one of them an id of its own: `rm /etc/machine-id && systemd-machine-id-setup`."
        )


@dataclass(eq=False)
class AgentRevoked(AgentRefused):
    """A person has shut the agent out."""

    who: str
    why: str

    def __str__(self) -> str:
        return (
            f"cannot register agent {self.agent_id}: {self.who} revoked it ({self.why}). "
            f"Run `benchfarm agent admit {self.agent_id}` to let it in again."
        )


@dataclass(eq=False)
class UnknownAgent(AgentRefused):
    """The agent has to register (again) before it may ask for work."""

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
    """The store could not read or write: full disk, I/O error, damage; the call changed nothing."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"cannot use the store {self.path}: {self.reason}"


@dataclass(eq=False)
class StoreDamaged(StoreUnavailable):
    """The store's file is damaged, and SQLite can't make sense of it; the call changed nothing."""

    def __str__(self) -> str:
        return (
            f"cannot use the store {self.path}: {self.reason}. "
            "Run `benchfarm store check` to see what is left."
        )


@dataclass(eq=False)
class StoreConflict(BenchfarmError):
    """What was to be kept contradicts what is stored; the call changed nothing."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"cannot use the store {self.path}: {self.reason}"


@dataclass(eq=False)
class WorkerFault(BenchfarmError):
    """A run could not be done; becomes the Failure of its attempt."""

    failure: Failure

    def __str__(self) -> str:
        return self.failure.message
