"""Shell commands that start and end programs on a phone, and the parsing of their output. Pure.

A program runs in a process group that a shell of ours leads. The shell prints its group's number
before the program's output and the exit code after it, both beside a random token. So this works
with daemons that report no exit code (before shell v2), and the run ends with the program, even if
another process holds its output open. When the connection breaks, adbd sends SIGHUP to that shell
only, which then ends its group.

Every string from outside is quoted by shlex (POSIX sh; Android's is mksh).
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from agents.remotes.remote import FaultKind, RemoteFault, malformed
from controller.platform.processes import ATTEMPT_MARKER

TERMINAL = ""
NOTHING = "/dev/null"
_LAUNCH = """
trap 'kill -s KILL -- -$$' HUP TERM
token=$1
echo "<$token:$$>"
case $2 in
  '') exec 3<&0 ;;
  /dev/null) exec 3</dev/null ;;
  *) exec 3<"$2"; rm -f "$2" ;;
esac
shift 2
"$@" <&3 3<&- &
exec 3<&- </dev/null 2>/dev/null
wait $!
echo "<$token=$?>"
kill -s KILL -- -$$
"""
# Repeats until none is left, since a dying process may start another. $2, if given, is a group that
# certainly still has the token; others are identified by the token.
_END = """
ended= passes=0
[ -z "$2" ] || kill -s KILL -- "-$2" 2>/dev/null
while
  found=$(grep -l -e "$1" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null)
  [ -n "$found" ]
do
  passes=$((passes + 1))
  [ "$passes" -le 100 ] || exit 9
  for file in $found; do
    pid=${file#/proc/}
    pid=${pid%%/*}
    kill -s KILL -- "-$pid" "$pid" 2>/dev/null
    case " $ended " in
      *" $pid "*) ;;
      *) ended="$ended $pid" ;;
    esac
  done
done
set -- $ended
echo "$#"
"""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BEGIN_DIGITS = re.compile(rb"(\d{1,10})>(\r?)\n")
_END_DIGITS = re.compile(rb"(\d{1,10})>")
_DIGITS_BYTES = 16
"""Most bytes of the group number or exit code, with what follows."""
BEFORE_BYTES = 1 << 16
"""Most bytes that a shell may print before the program starts."""


def owner_tag(owner: str) -> str:
    """Return the prefix of an owner's tokens."""
    return sha256(owner.encode()).hexdigest()[:16]


def others_tags(owner: str) -> str:
    """Return patterns that match the environment of other owners' programs, one a line.

    Each matches tags that equal this owner's up to one character, since grep can't express "any tag
    but this".
    """
    tag = owner_tag(owner)
    return "\n".join(f"{ATTEMPT_MARKER}={tag[:n]}[^{tag[n]}]" for n in range(len(tag)))


def new_token(owner: str) -> str:
    """Return a unique name for one start of a program."""
    return owner_tag(owner) + secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Launch:
    """A program to start."""

    token: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    stdin: str
    """Path of a file on the phone, which is removed; NOTHING; or TERMINAL for the daemon's own
    input."""

    def line(self) -> str:
        """Return the line for adbd's shell; raises RemoteFault if a shell can't represent it."""
        everything = {**self.environment, ATTEMPT_MARKER: self.token}
        words = [*self.argv, *everything.values()]
        if not self.argv or any("\0" in word for word in words):
            raise _unsayable(self.token, "an empty command, or one with a NUL in it")
        if unfit := [name for name in everything if not _NAME.fullmatch(name)]:
            raise _unsayable(self.token, f"{unfit} can't be names of environment variables")
        exports = [f"export {name}={shlex.quote(value)}" for name, value in everything.items()]
        script = "\n".join(exports) + _LAUNCH
        arguments = ("sh", "-c", script, "benchfarm", self.token, self.stdin, *self.argv)
        return f"exec {shlex.join(arguments)}"


def end_line(pattern: str, group: int | None = None) -> str:
    """Return the line that ends every program whose command line or environment matches.

    `pattern`: grep patterns, one a line; it begins with a literal character. `group`: a process
    group that certainly still matches. The line prints the number of processes, and exits with 9 if
    some survive SIGKILL.
    """
    # The brackets keep the pattern from matching the arguments of grep and sh.
    bracketed = "\n".join(f"[{line[0]}]{line[1:]}" for line in pattern.split("\n"))
    known = "" if group is None else str(group)
    return f"exec {shlex.join(('sh', '-c', _END, 'benchfarm-end', bracketed, known))}"


class Framing:
    """Separates the program's output from that of its shell."""

    def __init__(self, token: str) -> None:
        self.group: int | None = None
        """The program's process group, once it runs."""
        self.exit_code: int | None = None
        """The program's exit code, once it has ended."""
        self.before = b""
        """Output before the program started, such as a shell's error message."""
        self._begin = f"<{token}:".encode()
        self._end = f"<{token}=".encode()
        self._held = b""
        self._translated = False

    def feed(self, data: bytes) -> bytes:
        """Return the program's output in the data received so far."""
        if self.exit_code is not None:
            return b""
        if self.group is None:
            data = self._find_begin(data)
            if self.group is None:
                return b""
        else:
            data = self._held + data
        return self._find_end(data)

    def _find_begin(self, data: bytes) -> bytes:
        self.before += data
        at = self.before.find(self._begin)
        match = _BEGIN_DIGITS.match(self.before, at + len(self._begin)) if at >= 0 else None
        if match is None:
            if len(self.before) > BEFORE_BYTES:
                raise _nonsense(f"{len(self.before)} bytes before its program began")
            return b""
        rest = self.before[match.end() :]
        self.before = self.before[:at]
        self.group, self._translated = int(match[1]), bool(match[2])
        return rest

    def _find_end(self, data: bytes) -> bytes:
        if self._translated:
            # A terminal puts a CR before each LF; remove it to get the original output.
            data = data.replace(b"\r\n", b"\n")
        at = data.find(self._end)
        if at >= 0:
            self._held = data[at:]
            if match := _END_DIGITS.match(data, at + len(self._end)):
                self.exit_code = int(match[1])
            elif len(self._held) > len(self._end) + _DIGITS_BYTES:
                raise _nonsense("no exit code where one is announced")
            return data[:at]
        keep = self._undecided(data)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def _undecided(self, data: bytes) -> int:
        """Return the number of last bytes that may be the beginning of a marker."""
        longest = min(len(data), len(self._end) - 1)
        for n in range(longest, 0, -1):
            if data.endswith(self._end[:n]):
                return n
        return 1 if self._translated and data.endswith(b"\r") else 0


def _nonsense(what: str) -> RemoteFault:
    return malformed("a phone's shell", f"it printed {what}")


def _unsayable(place: str, message: str) -> RemoteFault:
    return RemoteFault(place, FaultKind.PROTOCOL, message)
