"""Sessions of people who have signed in with their token, kept in memory only.

A browser holds a random id, not the token: signing out, or the end of the server, ends all that
the id opens. A token that is revoked opens nothing, whatever sessions it has.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

ID_BYTES: Final = 32
IDLE_S: Final = 12 * 3600.0
"""For so long after its last request, a session lasts."""
MOST: Final = 1000
"""Sessions that are kept; of more, the one that was idle longest ends."""
MOST_OF_TOKEN: Final = 20
"""The same of one token: whoever signs in again and again ends nobody else's session."""


@dataclass(slots=True)
class Session:
    """What a browser that has signed in may do."""

    token: str = field(repr=False)
    """The user's token."""
    form_key: str = field(repr=False)
    """What every form of this session has to send back, so that no other page can send one."""
    seen_at: float
    """Seconds of the clock at its last request."""

    def wrote(self, given: str) -> bool:
        """Return whether a form comes from a page of this session; takes the same time for all."""
        return hmac.compare_digest(self.form_key.encode(), given.encode(errors="replace"))


class Sessions:
    """All sessions, by the digests of their ids."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        idle_s: float = IDLE_S,
        most: int = MOST,
        most_of_token: int = MOST_OF_TOKEN,
    ) -> None:
        self._clock = clock
        self._idle_s = idle_s
        self._most = most
        self._most_of_token = most_of_token
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}
        """The one that was idle longest is first."""

    def begin(self, token: str) -> str:
        """Begin a session with a token that is valid; return its id."""
        id_ = secrets.token_urlsafe(ID_BYTES)
        session = Session(token, secrets.token_urlsafe(ID_BYTES), self._clock())
        with self._lock:
            self._forget_idle()
            self._make_room(token)
            self._sessions[_digest(id_)] = session
        return id_

    def find(self, id_: str) -> Session | None:
        """Return the session with an id, which was used now; None if there is none."""
        with self._lock:
            self._forget_idle()
            session = self._sessions.pop(_digest(id_), None)
            if session:
                session.seen_at = self._clock()
                self._sessions[_digest(id_)] = session  # now the last
            return session

    def end(self, id_: str) -> None:
        """End the session with an id, if there is one."""
        with self._lock:
            self._sessions.pop(_digest(id_), None)

    def _make_room(self, token: str) -> None:
        own = [digest for digest, one in self._sessions.items() if one.token == token]
        for digest in own[: max(0, len(own) + 1 - self._most_of_token)]:
            del self._sessions[digest]
        while len(self._sessions) >= self._most:
            del self._sessions[next(iter(self._sessions))]

    def _forget_idle(self) -> None:
        before = self._clock() - self._idle_s
        while self._sessions:
            digest, first = next(iter(self._sessions.items()))
            if first.seen_at > before:
                return
            del self._sessions[digest]


def _digest(id_: str) -> str:
    return hashlib.sha256(id_.encode(errors="replace")).hexdigest()
