"""Tokens of the HTTP interface: the farm's own is the administrator's, each other has a name.

Tokens are random, so their plain SHA-256 is what is stored: nobody can guess one from it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable

from controller.contracts.administration import NewToken, TokenInfo
from controller.contracts.errors import NotAllowed, NotFound, UserError
from controller.contracts.records import ADMIN, Token
from controller.store.protocol import Store

TOKEN_BYTES = 32
LONGEST_TOKEN = 200


class Access:
    """The tokens by name; a change is stored first and then takes effect at once."""

    def __init__(self, store: Store, admin_token: str, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._admin = _digest(admin_token)
        self._tokens = {token.name: token for token in store.tokens()}

    def caller(self, authorization: str) -> str | None:
        """Return the user of an Authorization header's bearer token; None if it is not valid."""
        kind, _, given = authorization.partition(" ")
        if kind != "Bearer" or len(given) > LONGEST_TOKEN:
            return None
        digest = _digest(given)
        if hmac.compare_digest(digest, self._admin):
            return ADMIN
        same = (t.name for t in self._tokens.values() if hmac.compare_digest(digest, t.digest))
        return next((name for name in same if self.holds(name)), None)

    def holds(self, name: str) -> bool:
        """Return whether a user has a valid token now; one may have been revoked."""
        return name == ADMIN or (name in self._tokens and not self._tokens[name].revoked_at)

    def require_known(self, name: str, tried: str) -> None:
        """Raise NotFound if a user never had a token."""
        if name != ADMIN and name not in self._tokens:
            names = ", ".join([ADMIN, *sorted(self._tokens)][:20])
            remedy = f"Choose one of {names}, or run `benchfarm token create {name}`."
            raise NotFound(tried, f"there is no user {name}", remedy)

    def create(self, name: str) -> NewToken:
        """Create a user's token; raises UserError if the user has one already."""
        known = self._tokens.get(name)
        if name == ADMIN or (known and known.revoked_at is None):
            raise UserError(
                f"create a token for {name}",
                "there is one already",
                "Choose another name, or run `benchfarm token revoke` first.",
            )
        token = secrets.token_hex(TOKEN_BYTES)
        self._keep(Token(name=name, digest=_digest(token), created_at=self._clock()))
        return NewToken(name=name, token=token)

    def revoke(self, name: str) -> None:
        """Revoke a user's token; raises NotFound."""
        known = self._tokens.get(name)
        if known is None or known.revoked_at is not None:
            raise NotFound(
                f"revoke the token of {name}",
                "there is none",
                "Run `benchfarm token list` to see all.",
            )
        self._keep(known.model_copy(update={"revoked_at": self._clock()}))

    def list(self) -> list[TokenInfo]:
        """Return all tokens without their secrets."""
        shown = (t.model_dump(mode="json", exclude={"digest"}) for t in self._tokens.values())
        return [TokenInfo.model_validate(token) for token in shown]

    def _keep(self, token: Token) -> None:
        self._store.save_token(token)
        self._tokens[token.name] = token


def require_admin(caller: str, tried: str) -> None:
    """Raise NotAllowed unless the caller holds the farm's own token."""
    if caller != ADMIN:
        raise NotAllowed(
            tried,
            f"{caller} may only submit, watch and cancel sweeps",
            "Ask the administrator, who has the token in the farm's api-token file.",
        )


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()
