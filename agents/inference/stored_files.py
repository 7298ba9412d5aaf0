"""What is in this host's store of models, told to the controller for plans of sweeps."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from controller.contracts.device import LABEL_CHARACTERS, Word
from controller.contracts.wire import MOST_FILES
from models.mobile.store import Store

log = logging.getLogger(__name__)


_WORD: Final[TypeAdapter[str]] = TypeAdapter(Word)


@dataclass(slots=True)
class StoredFiles:
    """The checksums and keys in a store; looked at again at each call."""

    folder: Path
    told: str = ""
    """The last trouble that was logged."""

    def __call__(self) -> tuple[str, ...] | None:
        """Return them; None if they can't be read or are too many, so that nothing is claimed."""
        try:
            found = tuple(Store(self.folder).contents())
        except OSError as error:
            self._log(f"the store of models can't be read: {error}")
            return None
        found = tuple(word for word in found if _is_tellable(word))  # no task needs another
        if len(found) > MOST_FILES:
            self._log(f"the store of models has too much to tell of: {len(found)} names")
            return None
        self.told = ""
        return found

    def _log(self, trouble: str) -> None:
        if trouble != self.told:
            log.warning("%s", trouble)
        self.told = trouble


def _is_tellable(name: str) -> bool:
    """Return whether a name can be sent: others who may write here may give it any character."""
    try:
        return len(_WORD.validate_python(name)) <= LABEL_CHARACTERS
    except ValidationError:
        return False
