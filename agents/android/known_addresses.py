"""The phones that an agent's own adb server was connected to over TCP: a new server knows none."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

from agents.transports.adb.recovery import is_tcp

log = logging.getLogger(__name__)
FILE = "addresses.json"


class KnownAddresses:
    """HOST:PORTs in a file, which outlive the server and the agent."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = set(_read(file))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._known))

    def came(self, serial: str) -> None:
        """Remember a phone that has been taken in, if that is by its address."""
        if is_tcp(serial) and serial not in self._known:
            self._known.add(serial)
            self._write()

    def given_up(self, serial: str) -> None:
        """Forget an address at which there is no phone any more, or one that is here already."""
        if serial in self._known:
            self._known.remove(serial)
            self._write()

    def _write(self) -> None:
        new = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps(sorted(self._known)))
            new.replace(self._file)
        except OSError as error:  # a full disk, say: it is connected by hand then
            log.error("phones' addresses are not remembered: %s", error)


def _read(file: Path) -> list[str]:
    """Return what is remembered; of a damaged file nothing."""
    try:
        said = json.loads(file.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        log.error("phones' addresses can't be read: %s", error)
        return []
    known = said if isinstance(said, list) else []
    return [serial for serial in known if isinstance(serial, str) and is_tcp(serial)]
