"""What is in each host's store of models: asked of the controller, or looked at here."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.contracts.administration import FILES, StoredFiles
from controller.contracts.errors import UserError
from controller.runtime.client import FarmClient, Timings
from controller.runtime.home import Home
from controller.runtime.models import model_statuses
from controller.runtime.waiting import ANSWER_S
from controller.scheduling.model_files import HERE


def stored_files_now(home: Home) -> Mapping[str, Collection[str]]:
    """Return what is in the store of models of each online host that has said it.

    Only the controller knows; nobody does while it is away.
    """
    client = FarmClient(home, {}, Timings(answer_s=ANSWER_S))
    try:
        return client.administer(StoredFiles, FILES).files
    except UserError:
        return {}


def stored_files_here() -> Mapping[str, Collection[str]]:
    """Return what is in this host's store of models, under HERE.

    A process of the models' side looks at it. Raises UserError if it can't be read.
    """
    there = [status for status in model_statuses("list") if status.there]
    checksums = {status.checksum for status in there if status.checksum}
    return {HERE: checksums | {status.key for status in there}}
