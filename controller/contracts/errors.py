"""The errors of benchfarm; each carries its facts and survives pickle, since they cross Ray.

BenchfarmError
├── UserError                  what the user can correct; the CLI exits with status 2
│   ├── SweepInvalid           a sweep file that cannot be read or run
│   ├── SelectorInvalid        a device selector that cannot be parsed
│   ├── NoMatchingDevice       a selector that no registered device satisfies
│   ├── NotFound               an unknown sweep, run or device
│   ├── Incomparable           results or devices that cannot be compared
│   ├── CopyDamaged            an artefact whose copy on the head is damaged
│   ├── AnswersUnreadable      a device's accuracy log that its runner did not write so
│   ├── FarmUnavailable        a farm that is down or does not answer
│   │   ├── FarmRestarting     a farm that is being restarted
│   │   └── FarmSilent         a farm whose controller listens but does not answer
│   ├── HomeUnusable           a BENCHFARM_HOME that cannot hold the farm's state
│   ├── PhoneUnavailable       a phone that cannot be started, reached or used
│   │   ├── AdbUnavailable     an adb server that does not run and cannot be started
│   │   │   └── AdbMissing     an `adb` that is not installed
│   │   └── PhoneClaimedTwice  a phone with two connections
│   ├── DeviceRefused          an agent's device that the controller refuses
│   ├── DeviceBooked           a reservation that overlaps another user's
│   ├── LabelOfAgent           the removal of a label that the device's agent sets
│   ├── NotProbed              a device that no probe can let out of quarantine
│   ├── NotAllowed             a request that the caller's token does not allow
│   └── OverQuota              too many open runs or stored bytes of one user
├── AgentRefused               the controller's refusal of an agent
│   ├── VersionMismatch        an agent of another release than the controller
│   ├── SharedMachineId        two hosts with one id
│   │   └── JoinedTwice        two agents of one host, in different homes
│   ├── AgentRevoked           an agent that a person has shut out
│   └── UnknownAgent           an agent that has to register (again) first
├── UnknownAttempt             a message about an attempt that its agent was never given
├── PartnersAwaited            a result that other hosts of its run have not confirmed yet
├── StoreUnavailable           a failed read or write of the store: full disk, I/O error, damage
│   └── StoreDamaged           a damaged file, which SQLite cannot read
├── StoreConflict              new records that contradict stored ones
└── WorkerFault                a failed run; becomes the Failure of its attempt

These are the errors that more than one package handles. An error of which only the text leaves its
package is defined there: BundleUnbuildable (agents/inference/bundle/recipe.py), ControllerAway
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
    """The root of all errors; subclasses are dataclasses whose fields are the facts."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields(self)})


@dataclass(eq=False)
class UserError(BenchfarmError):
    """An error that the user can correct; the command line prints it and exits with status 2.

    Its message is one line: `cannot read sweep.yaml: line 3: key "name" appears twice. Remove one.`
    """

    tried: str
    """What could not be done, as the message continues after "cannot": `read sweep.yaml`."""
    seen: str
    """Why, without a full stop; one at the end of a message from elsewhere is removed."""
    remedy: str
    """What to do, as one sentence."""

    def __str__(self) -> str:
        seen = self.seen.strip().removesuffix(".")
        return " ".join(f"cannot {self.tried}: {seen}. {self.remedy}".split())


class SweepInvalid(UserError):
    """A sweep file that cannot be read or run."""


class SelectorInvalid(UserError):
    """A device selector that cannot be parsed."""


class NoMatchingDevice(UserError):
    """A selector that no registered device satisfies; `seen` names what excluded each."""


class NotFound(UserError):
    """An unknown sweep, run or device."""


class Incomparable(UserError):
    """Results or devices that cannot be compared: of two kinds, or virtual and real."""


class CopyDamaged(UserError):
    """An artefact whose copy on the head is not what its checksum says, or cannot be read."""


class AnswersUnreadable(UserError):
    """A device's accuracy log that its runner did not write so: cut, garbled or missing."""


class FarmUnavailable(UserError):
    """A farm that is down or does not answer."""


class FarmRestarting(FarmUnavailable):
    """A farm that is being restarted."""


class FarmSilent(FarmUnavailable):
    """A farm whose controller listens but does not answer."""


class HomeUnusable(UserError):
    """A BENCHFARM_HOME that cannot hold the farm's state."""


class PhoneUnavailable(UserError):
    """A phone that cannot be started, reached or used."""


class AdbUnavailable(PhoneUnavailable):
    """An adb server that does not run and cannot be started."""


class AdbMissing(AdbUnavailable):
    """An `adb` that is not installed."""


class PhoneClaimedTwice(PhoneUnavailable):
    """A phone with two connections; `seen` names both."""


class DeviceRefused(UserError):
    """An agent's device that the controller refuses: another agent has the device or its id."""


class DeviceBooked(UserError):
    """A reservation that overlaps another user's."""


class LabelOfAgent(UserError):
    """The removal of a label that the device's agent sets."""


class NotProbed(UserError):
    """A device that no probe can release: it isn't quarantined, is away, or is held by a person."""


class NotAllowed(UserError):
    """A request that the caller's token does not allow: about another user's sweep, or
    administration."""


class OverQuota(UserError):
    """Too many open runs or stored bytes of one user."""


@dataclass(eq=False)
class AgentRefused(BenchfarmError):
    """The controller's refusal of an agent; subclasses say why and what to do."""

    agent_id: str

    @property
    def seen(self) -> str:
        """Why, without a full stop."""
        return "it gives no reason"

    @property
    def remedy(self) -> str:
        """What to do, as one sentence."""
        return "See its log."

    def __str__(self) -> str:
        return f"the controller refuses agent {self.agent_id}: {self.seen}. {self.remedy}"


@dataclass(eq=False)
class VersionMismatch(AgentRefused):
    """An agent of another release than the controller."""

    agent_version: str
    controller_version: str

    @property
    def seen(self) -> str:
        """See AgentRefused."""
        return (
            f"it runs benchfarm {self.agent_version}, and the controller runs "
            f"{self.controller_version}"
        )

    @property
    def remedy(self) -> str:
        """See AgentRefused."""
        return "Install the controller's version on the agent's host."


@dataclass(eq=False)
class SharedMachineId(AgentRefused):
    """Two hosts with one id: copies of one disk image, or one host before and after a boot.

    host, other_host: host names with boot ids, since copies may share a name.
    """

    host: str
    other_host: str
    again_in_s: float
    """Seconds after which the other host counts as gone, unless it sends something."""

    @property
    def seen(self) -> str:
        """See AgentRefused."""
        return (
            f"host {self.other_host} has the same machine id as {self.host}, and counts as online "
            f"for another {self.again_in_s:.1f} s"
        )

    @property
    def remedy(self) -> str:
        """See AgentRefused."""
        return "Give one of them its own: `rm /etc/machine-id && systemd-machine-id-setup`."


@dataclass(eq=False)
class JoinedTwice(SharedMachineId):
    """Two agents of one host; host, other_host: the folders of both."""

    @property
    def seen(self) -> str:
        """See AgentRefused."""
        return (
            f"this host has joined already, with the agent of {self.other_host}, which counts as "
            f"online for another {self.again_in_s:.1f} s"
        )

    @property
    def remedy(self) -> str:
        """See AgentRefused."""
        return "Run `benchfarm down` with the BENCHFARM_HOME of the other agent first."


@dataclass(eq=False)
class AgentRevoked(AgentRefused):
    """An agent that a person has revoked."""

    who: str
    why: str

    @property
    def seen(self) -> str:
        """See AgentRefused."""
        return f"it was revoked by {self.who} ({self.why})"

    @property
    def remedy(self) -> str:
        """See AgentRefused."""
        return f"Run `benchfarm agent admit {self.agent_id}` to let it in again."


@dataclass(eq=False)
class UnknownAgent(AgentRefused):
    """An agent that has to register (again) before it may ask for work."""

    incarnation: str

    @property
    def seen(self) -> str:
        """See AgentRefused."""
        return f"it is not registered (incarnation {self.incarnation})"

    @property
    def remedy(self) -> str:
        """See AgentRefused."""
        return "It has to register first."


@dataclass(eq=False)
class UnknownAttempt(BenchfarmError):
    """A report or a file of an attempt that its agent was never given."""

    run_id: str
    attempt: int

    def __str__(self) -> str:
        return f"run {self.run_id} has no attempt {self.attempt}"


@dataclass(eq=False)
class PartnersAwaited(BenchfarmError):
    """A result that counts only when the other hosts of its run have reported; sent again."""

    run_id: str
    attempt: int

    def __str__(self) -> str:
        return f"other hosts of run {self.run_id}, attempt {self.attempt}, have not reported yet"


@dataclass(eq=False)
class StoreUnavailable(BenchfarmError):
    """A failed read or write of the store: full disk, I/O error, damage; nothing was changed."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"store {self.path}: {self.reason}"


@dataclass(eq=False)
class StoreDamaged(StoreUnavailable):
    """A damaged file of the store, which SQLite cannot read; nothing was changed."""

    def __str__(self) -> str:
        return f"store {self.path}: {self.reason}. Run `benchfarm store check` to see what is left."


@dataclass(eq=False)
class StoreConflict(BenchfarmError):
    """New records that contradict stored ones; nothing was changed."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"store {self.path}: {self.reason}"


@dataclass(eq=False)
class WorkerFault(BenchfarmError):
    """A failed run; becomes the Failure of its attempt."""

    failure: Failure

    def __str__(self) -> str:
        return self.failure.message
