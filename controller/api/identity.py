"""Who calls: the user and the scope of the token that a request carries."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Final

from controller.api.problems import Unauthenticated
from controller.contracts.errors import HomeUnusable, NotAllowed, UserError
from controller.contracts.records import ADMIN, Scope
from controller.runtime.access import bearer, digest_of, holder, is_secret
from controller.runtime.home import Home
from controller.store.protocol import StoreReader

REALM: Final = 'Bearer realm="benchfarm"'
"""What a caller without a valid token is told to send (RFC 6750)."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a request."""

    name: str
    scope: Scope
    token: str = field(repr=False)
    """The secret itself, with which the controller is asked in the user's name."""


def caller_of(authorization: str, store: StoreReader, home: Home) -> Caller:
    """Return who a request is from; the store is read, so what was revoked is so at once.

    Raises Unauthenticated, HomeUnusable.
    """
    given = bearer(authorization)
    if given is None:
        raise _nobody("the request has no token")
    if token := holder(given, store.tokens()):
        return Caller(token.name, token.scope, given)
    own = _own_token(home)
    if own and is_secret(given, digest_of(own)):
        return Caller(ADMIN, Scope.ADMINISTRATOR, given)
    raise _nobody("its token is not valid")


def known_digests(store: StoreReader, home: Home) -> frozenset[str]:
    """Return the digests of all tokens that are known to be valid now."""
    try:
        own = _own_token(home)
    except HomeUnusable:  # of the others, all is known
        own = ""
    tokens = (token.digest for token in store.tokens() if token.revoked_at is None)
    return frozenset([*tokens, *([digest_of(own)] if own else [])])


def require(caller: Caller, needed: Scope, tried: str) -> None:
    """Raise NotAllowed unless a caller's token has a scope, or a higher one."""
    if not caller.scope.allows(needed):
        seen = f"the token of {caller.name} is of scope {caller.scope}"
        raise NotAllowed(tried, seen, f"Ask the administrator for one of scope {needed}.")


def _own_token(home: Home) -> str:
    """Return the farm's own token; empty if there is none that can be trusted.

    Raises HomeUnusable if its file can't be read now: whether a token is that one isn't known.
    """
    try:
        return home.read_token(home.api_token)
    except UserError as error:
        why = error.__cause__
        if isinstance(why, OSError) and why.errno not in (errno.ENOENT, errno.ELOOP):  # no link
            raise HomeUnusable(error.tried, error.seen, error.remedy) from error
        return ""


def _nobody(seen: str) -> Unauthenticated:
    remedy = "Send `Authorization: Bearer TOKEN`; `benchfarm token create NAME` prints a token."
    return Unauthenticated("answer the request", seen, remedy)
