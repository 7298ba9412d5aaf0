"""The file on an agent's host with the settings that were changed on a phone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agents.phones.settings import KeptSettings
from controller.contracts.documents import read_json
from controller.contracts.errors import PhoneUnavailable
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.atomic import write_private

MAX_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class KeptFile:
    """The file of one phone; it outlives the command, the agent and the phone's connection."""

    path: Path
    device_id: str

    def read(self) -> KeptSettings:
        """Return the settings to restore; raises PhoneUnavailable if the file is damaged."""
        try:
            kept = read_json(KeptSettings, self.path, MAX_BYTES)
        except FileNotFoundError:
            return KeptSettings(device_id=self.device_id)
        except (*UNREADABLE, OSError) as error:
            raise self._damaged(reason(error)) from error
        if kept.device_id != self.device_id:
            raise self._damaged(f"it belongs to phone {kept.device_id}")
        return kept

    def write(self, kept: KeptSettings) -> None:
        """Write the settings and sync them to disk; raises PhoneUnavailable."""
        try:
            if not kept.kept:
                self.path.unlink(missing_ok=True)
                return
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(self.path, kept.model_dump_json())
        except OSError as error:
            tried, remedy = f"keep the settings of phone {self.device_id}", "Check that disk."
            seen = f"{self.path}: {error.strerror or error}"
            raise PhoneUnavailable(tried, seen, remedy) from error

    def _damaged(self, why: str) -> PhoneUnavailable:
        seen = f"{self.path} is damaged: {why}"
        remedy = "Check the phone's settings yourself, then delete the file."
        return PhoneUnavailable(f"read the settings of phone {self.device_id}", seen, remedy)
