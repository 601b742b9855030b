"""Who is asking: tokens, client certificates, and the few paths that are open to everybody.

The server has one owner. Whoever holds its token, or a certificate of its authority that names the group
`system:masters`, may do everything, also in the name of somebody else; nobody else is let in.
"""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, cast

from levelset.errors import Forbidden, Unauthorized
from levelset.web import Peer, Request

__all__ = ["ANONYMOUS", "MASTERS", "OWNER", "Access", "Caller", "is_public"]

MASTERS = "system:masters"
_AUTHENTICATED = "system:authenticated"
_OPEN = frozenset({"healthz", "livez", "readyz", "version"})
_MOST_KNOWN: Final = 64


@dataclass(frozen=True, slots=True)
class Caller:
    """The one who sent a request: a user name and the groups it is in."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    is_master: bool = field(init=False, compare=False, repr=False)
    """Whether the caller may do everything."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_master", MASTERS in self.groups)


OWNER = Caller("levelset-admin", (MASTERS, _AUTHENTICATED))
ANONYMOUS = Caller("system:anonymous", ("system:unauthenticated",))


class Access:
    """Tells callers by their bearer token or their certificate; `is_open` lets everybody in as the owner."""

    __slots__ = ("_is_open", "_known", "_tokens")

    def __init__(self, tokens: Mapping[str, Caller] | Iterable[str] = (), *, is_open: bool = False) -> None:
        pairs = cast("Mapping[str, Caller]", tokens).items() if isinstance(tokens, Mapping) else _owned(tokens)
        self._tokens = tuple((token.encode(), caller) for token, caller in pairs)
        self._is_open = is_open
        # Headers that named a caller before. A lookup compares texts only if their keyed hashes are the same, so how
        # long it takes tells no more about a token than the comparison in constant time that let the header in here.
        self._known: dict[str, Caller] = {}

    def caller(self, request: Request) -> Caller:
        """Who sent the request; raises Unauthorized if that cannot be told, Forbidden for a wrong impersonation.

        Health and version may be asked by anybody, even with a credential that is not known.
        """
        headers = request.headers
        header = headers.find("authorization")
        found = self._of_peer(request.peer) if header is None else self._known.get(header) or self._read(header)
        if found is None:
            if is_public(request.path):
                return ANONYMOUS
            raise Unauthorized("Unauthorized")
        wanted = headers.find("impersonate-user")
        if wanted is not None or headers.find("impersonate-group") is not None:
            groups, uid = headers.get_all("impersonate-group"), headers.find("impersonate-uid")
            return _impersonate(found, wanted, groups, uid)
        return found

    def token_caller(self, token: str) -> Caller | None:
        """Whose token this is; None if it is nobody's."""
        return self._find_token(token.encode("utf-8", "surrogatepass"))

    def _of_peer(self, peer: Peer | None) -> Caller | None:
        if peer is not None:
            return _caller_of(peer)
        return OWNER if self._is_open else None

    def _read(self, header: str) -> Caller | None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            return None
        found = self._find_token(token.strip().encode("utf-8", "surrogatepass"))
        if found is not None and len(self._known) < _MOST_KNOWN:
            self._known[header] = found
        return found

    def _find_token(self, token: bytes) -> Caller | None:
        found = None
        for known, caller in self._tokens:  # all of them, each in constant time: how long it takes tells nothing
            if hmac.compare_digest(known, token):
                found = caller
        return OWNER if found is None and self._is_open else found


def _owned(tokens: Iterable[str]) -> Iterable[tuple[str, Caller]]:
    return [(token, OWNER) for token in tokens]


def is_public(path: str) -> bool:
    """Whether a path is open to those without any credentials."""
    return path.strip("/").partition("/")[0] in _OPEN


@lru_cache(maxsize=64)
def _caller_of(peer: Peer) -> Caller:
    return Caller(peer.common_name, (*peer.organizations, _AUTHENTICATED))


def _impersonate(caller: Caller, user: str | None, groups: tuple[str, ...], uid: str | None) -> Caller:
    if not user:
        raise Forbidden("impersonation needs a user: send the header Impersonate-User too")
    if not caller.is_master:
        text = f'users "{user}" is forbidden: User "{caller.name}" cannot impersonate resource "users" in API group ""'
        raise Forbidden(f"{text} at the cluster scope", details={"name": user, "kind": "users"})
    more = () if _AUTHENTICATED in groups else (_AUTHENTICATED,)
    return Caller(user, (*groups, *more), uid or "")
