"""What is in each host's store of models, as its agent says at each exchange.

Kept in memory only: an agent repeats it, so also to a restarted controller.
"""

from __future__ import annotations

from collections.abc import Collection


class HostStores:
    """The checksums and keys that each agent has said; None for one that can't tell."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[str, ...] | None] = {}

    def heard(self, agent_id: str, files: tuple[str, ...] | None) -> None:
        """Replace what an agent said before."""
        self._of[agent_id] = files

    def among(self, agent_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return what is in the stores of those of the agents that have said it."""
        said = {id_: files for id_, files in self._of.items() if id_ in agent_ids}
        return {id_: files for id_, files in said.items() if files is not None}
