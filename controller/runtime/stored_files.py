"""What is in each host's store of models, asked of the controller."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.contracts.administration import FILES, StoredFiles
from controller.contracts.errors import UserError
from controller.runtime.client import FarmClient, Timings
from controller.runtime.home import Home
from controller.runtime.waiting import ANSWER_S


def stored_files_now(home: Home) -> Mapping[str, Collection[str]]:
    """Return what is in the store of models of each online host that has said it.

    Only the controller knows; nobody does while it is away.
    """
    client = FarmClient(home, {}, Timings(answer_s=ANSWER_S))
    try:
        return client.administer(StoredFiles, FILES).files
    except UserError:
        return {}
