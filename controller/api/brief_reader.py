"""What completion offers of a farm elsewhere: a page of each list, so that TAB is answered soon."""

from __future__ import annotations

from typing import Final, TypeVar

from controller.api.answers import Page, ResultPage, SweepPage
from controller.api.connection import Ask, Params
from controller.api.reader import ApiReader
from controller.contracts.administration import TokenInfo, TokenList
from controller.contracts.base import Contract
from controller.contracts.records import SweepRecord

MOST: Final = 200
"""Items of a page; as many as the API gives."""
Item = TypeVar("Item", bound=Contract)


class BriefReader(ApiReader):
    """Reads the first page of each list, the newest of sweeps and results; never a whole farm."""

    def sweeps(self) -> list[SweepRecord]:
        """Return the newest sweeps, oldest first."""
        return self._every(SweepPage, "/sweeps", {"sort": "-submitted"})[::-1]

    def runs_beginning(self, text: str, most: int) -> list[str]:
        """Return the runs of the newest results whose ids begin with a text, newest first."""
        found = self._every(ResultPage, "/results", {"sort": "-stored"})
        ids = dict.fromkeys(one.run_id for one in found if one.run_id.startswith(text))
        return [*ids][:most]

    def tokens(self) -> list[TokenInfo]:
        """Return every token; raises NotAllowed unless an administrator asks."""
        words = self._connection.words
        return [*self._connection.run(words.one(TokenList, Ask("GET", "/tokens"))).tokens]

    def _every(self, kind: type[Page[Item]], path: str, params: Params | None = None) -> list[Item]:
        asked = Ask("GET", path, {"limit": str(MOST), **(params or {})})
        return [*self._connection.run(self._connection.words.one(kind, asked)).items]
