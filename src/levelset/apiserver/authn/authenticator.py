"""Who is asking: tokens, client certificates, and the few paths that are open to everybody.

The server has one owner. Whoever holds its token, or a certificate of its authority that names the group
`system:masters`, may do everything, also in the name of somebody else. Who else is known is told here, too; what they
may do is decided by roles, if the server has them, and otherwise it is next to nothing.
"""

import hmac
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, cast

from levelset.apiserver.authn.impersonation import impersonate
from levelset.apiserver.authn.request_attributes import Attempt
from levelset.apiserver.authn.users import ANONYMOUS, AUTHENTICATED, MASTERS, OWNER, Caller
from levelset.errors import Unauthorized
from levelset.http import Headers, Peer, Request

__all__ = ["ANONYMOUS", "MASTERS", "OWNER", "Access", "Caller", "is_public"]

_OPEN = frozenset({"healthz", "livez", "readyz", "version"})
_MOST_KNOWN: Final = 64


class Access:
    """Tells callers by their bearer token or their certificate; `is_open` lets everybody in as the owner."""

    __slots__ = ("_is_open", "_known", "_tokens", "accounts", "admits_anonymous", "allows")

    def __init__(self, tokens: Mapping[str, Caller] | Iterable[str] = (), *, is_open: bool = False) -> None:
        pairs = cast("Mapping[str, Caller]", tokens).items() if isinstance(tokens, Mapping) else _owned(tokens)
        self._tokens = tuple((token.encode(), caller) for token, caller in pairs)
        self._is_open = is_open
        self.accounts: Callable[[str], Caller | None] | None = None
        """Tells the service account of a token that is none of the server's own; None if there are none."""
        self.admits_anonymous = False
        """Whether somebody without credentials is a caller, too: one whom roles may allow something."""
        self.allows: Callable[[Caller, Attempt], bool] = _only_masters
        """Who may speak for whom."""
        # Headers that named a caller before. A lookup compares texts only if their keyed hashes are the same, so how
        # long it takes tells no more about a token than the comparison in constant time that let the header in here.
        self._known: dict[str, Caller] = {}

    def caller(self, request: Request) -> Caller:
        """Who sent the request; raises Unauthorized if that cannot be told, Forbidden for a wrong impersonation.

        Health and version may be asked by anybody, even with a credential that is not known.
        """
        find = request.headers.find
        header = find("authorization")
        # As `sender` does it: every request pays for the call otherwise.
        found = self._of_peer(request.peer) if header is None else self._known.get(header) or self._read(header)
        if found is None:
            if not is_public(request.path) and not (self.admits_anonymous and header is None):
                raise Unauthorized("Unauthorized")
            found = ANONYMOUS
        if (
            find("impersonate-user") is not None
            or find("impersonate-group") is not None
            or find("impersonate-uid") is not None
            or (not found.is_master and _names_extra(request.headers))
        ):
            return impersonate(found, request.headers, self.allows)
        return found

    def sender(self, request: Request) -> Caller | None:
        """Whose credentials came with the request, in whoever's name it was sent; None if they are nobody's."""
        header = request.headers.find("authorization")
        return self._of_peer(request.peer) if header is None else self._known.get(header) or self._read(header)

    def token_caller(self, token: str) -> Caller | None:
        """Whose token this is; None if it is nobody's."""
        found = self._find_token(token.encode("utf-8", "surrogatepass"))
        return self.accounts(token) if found is None and self.accounts is not None else found

    def _of_peer(self, peer: Peer | None) -> Caller | None:
        if peer is not None:
            return _caller_of(peer) if peer.common_name else None
        return OWNER if self._is_open else None

    def _read(self, header: str) -> Caller | None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = token.strip()
        found = self._find_token(token.encode("utf-8", "surrogatepass"))
        if found is None:
            # Not kept: such a token ends with its time, or with its account.
            return None if self.accounts is None else self.accounts(token)
        if len(self._known) < _MOST_KNOWN:
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


def _only_masters(caller: Caller, _attempt: Attempt) -> bool:
    return caller.is_master


def _names_extra(headers: Headers) -> bool:
    """Whether something is said about somebody who is not named; the owner is spared the search."""
    return any(name.startswith("impersonate-") for name, _ in headers)


def is_public(path: str) -> bool:
    """Whether a path is open to those without any credentials."""
    return path.strip("/").partition("/")[0] in _OPEN


@lru_cache(maxsize=64)
def _caller_of(peer: Peer) -> Caller:
    return Caller(peer.common_name, (*peer.organizations, AUTHENTICATED))
