"""Tokens of the HTTP interface: the farm's own is the administrator's, each other has a name.

Tokens are random, so their plain SHA-256 is what is stored: nobody can guess one from it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable

from controller.contracts.administration import NewToken, TokenInfo
from controller.contracts.errors import NotAllowed, NotFound, UserError
from controller.contracts.records import ADMIN, Scope, Token
from controller.store.protocol import Store

TOKEN_BYTES = 32
LONGEST_TOKEN = 200


class Access:
    """The tokens by name; a change is stored first and then takes effect at once."""

    def __init__(self, store: Store, admin_token: str, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._admin = digest_of(admin_token)
        self._tokens = {token.name: token for token in store.tokens()}

    def caller(self, authorization: str) -> str | None:
        """Return the user of an Authorization header's bearer token; None if it is not valid.

        An administrator's token is that of the user `admin`, as the farm's own is.
        """
        given = bearer(authorization)
        if given is None:
            return None
        if is_secret(given, self._admin):
            return ADMIN
        token = holder(given, self._tokens.values())
        if token is None:
            return None
        return ADMIN if token.scope is Scope.ADMINISTRATOR else token.name

    def submits(self, name: str) -> bool:
        """Return whether a user's token allows more than reading."""
        return name == ADMIN or self._tokens[name].scope.allows(Scope.SUBMITTER)

    def require_known(self, name: str, tried: str) -> None:
        """Raise NotFound if a user never had a token."""
        if name != ADMIN and name not in self._tokens:
            names = ", ".join([ADMIN, *sorted(self._tokens)][:20])
            remedy = f"Choose one of {names}, or run `benchfarm token create {name}`."
            raise NotFound(tried, f"there is no user {name}", remedy)

    def create(self, name: str, scope: Scope = Scope.SUBMITTER) -> NewToken:
        """Create a user's token; raises UserError if the user has one already."""
        known = self._tokens.get(name)
        if name == ADMIN or (known and known.revoked_at is None):
            raise UserError(
                f"create a token for {name}",
                "there is one already",
                "Choose another name, or run `benchfarm token revoke` first.",
            )
        token = secrets.token_hex(TOKEN_BYTES)
        digest = digest_of(token)
        self._keep(Token(name=name, digest=digest, created_at=self._clock(), scope=scope))
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


def require_submitter(access: Access, caller: str, tried: str) -> None:
    """Raise NotAllowed if the caller's token allows only reading."""
    if not access.submits(caller):
        raise NotAllowed(
            tried,
            f"the token of {caller} only reads",
            "Ask the administrator for one of scope submitter.",
        )


def require_admin(caller: str, tried: str) -> None:
    """Raise NotAllowed unless the caller holds the farm's own token."""
    if caller != ADMIN:
        raise NotAllowed(
            tried,
            f"{caller} may only submit, watch and cancel sweeps",
            "Ask the administrator, who has the token in the farm's api-token file.",
        )


def bearer(authorization: str) -> str | None:
    """Return the secret of an Authorization header; None without one that could be a token."""
    kind, _, given = authorization.partition(" ")
    return given if kind == "Bearer" and 0 < len(given) <= LONGEST_TOKEN else None


def holder(given: str, tokens: Iterable[Token]) -> Token | None:
    """Return the token that a secret opens now, or None. Digests are compared in constant time."""
    digest = digest_of(given)
    same = (token for token in tokens if hmac.compare_digest(digest, token.digest))
    return next((token for token in same if token.revoked_at is None), None)


def is_secret(given: str, digest: str) -> bool:
    """Return whether a secret has a digest; takes the same time for every secret."""
    return hmac.compare_digest(digest_of(given), digest)


def digest_of(token: str) -> str:
    """Return what is stored of a token: its SHA-256, hex."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()
