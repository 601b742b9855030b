"""Authentication of requests: bearer tokens, client certificates, impersonation and the public paths.

The server has one administrator: a request with its token, or with a client certificate of the server's authority whose
organization is `system:masters`, may do everything, impersonation included. Other users come from the token file, from
certificates and from service account tokens; what they may do is decided by RBAC if it is enabled, otherwise they may
only read the public paths.
"""

import hmac
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, cast

from levelset.apiserver.authn.impersonation import impersonate
from levelset.apiserver.authn.request_attributes import RequestAttributes
from levelset.apiserver.authn.users import ADMIN, ANONYMOUS, AUTHENTICATED, MASTERS, User
from levelset.errors import Unauthorized
from levelset.http import Headers, Peer, Request

__all__ = ["ADMIN", "ANONYMOUS", "MASTERS", "Authenticator", "User", "is_public_path"]

_PUBLIC_PATHS = frozenset({"healthz", "livez", "readyz", "version"})
_MAX_CACHED_HEADERS: Final = 64


class Authenticator:
    """Authenticates requests by bearer token or client certificate.

    `tokens` maps tokens to users; a plain sequence holds tokens of the administrator. With `is_open` every request
    without a client certificate is authenticated as the administrator.
    """

    __slots__ = ("_cached_headers", "_is_open", "_tokens", "allow_anonymous", "may_impersonate", "service_account_user")

    def __init__(self, tokens: Mapping[str, User] | Iterable[str] = (), *, is_open: bool = False) -> None:
        pairs = cast("Mapping[str, User]", tokens).items() if isinstance(tokens, Mapping) else _admin_tokens(tokens)
        self._tokens = tuple((token.encode(), user) for token, user in pairs)
        self._is_open = is_open
        self.service_account_user: Callable[[str], User | None] | None = None
        """Authenticates a service account token; None if the server issues none."""
        self.allow_anonymous = False
        """Whether a request without credentials is authenticated as `system:anonymous`, for RBAC to decide."""
        self.may_impersonate: Callable[[User, RequestAttributes], bool] = _only_masters
        """Whether a user may use the verb `impersonate` with these attributes."""
        # Authorization headers that were authenticated before. A lookup compares strings only if their keyed hashes are
        # equal, so its duration reveals no more about a token than the constant-time comparison before it.
        self._cached_headers: dict[str, User] = {}

    def authenticate(self, request: Request) -> User:
        """The user of the request, after impersonation; raises Unauthorized, or Forbidden for the impersonation.

        The health and version paths need no credentials; with invalid ones they raise Unauthorized, as all others.
        """
        find = request.headers.find
        header = find("authorization")
        # Inlined from `credentials_user`: every request would pay for the call.
        found = (
            self._of_peer(request.peer) if header is None else self._cached_headers.get(header) or self._read(header)
        )
        if found is None:
            if header is not None or not (self.allow_anonymous or is_public_path(request.path)):
                raise Unauthorized("Unauthorized")
            found = ANONYMOUS
        if (
            find("impersonate-user") is not None
            or find("impersonate-group") is not None
            or find("impersonate-uid") is not None
            # A lone Impersonate-Extra header is an error; masters skip the search because it cannot give them more.
            or (not found.is_master and _has_impersonation_header(request.headers))
        ):
            return impersonate(found, request.headers, self.may_impersonate)
        return found

    def credentials_user(self, request: Request) -> User | None:
        """The user whose credentials the request carries, before impersonation; None if they are not valid."""
        header = request.headers.find("authorization")
        return self._of_peer(request.peer) if header is None else self._cached_headers.get(header) or self._read(header)

    def authenticate_token(self, token: str) -> User | None:
        """The user of a bearer token; None if it is not valid."""
        found = self._find_token(token.encode("utf-8", "surrogatepass"))
        return self.service_account_user(token) if found is None and self.service_account_user is not None else found

    def _of_peer(self, peer: Peer | None) -> User | None:
        if peer is not None:
            return _certificate_user(peer) if peer.common_name else None
        return ADMIN if self._is_open else None

    def _read(self, header: str) -> User | None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = token.strip()
        found = self._find_token(token.encode("utf-8", "surrogatepass"))
        if found is None:
            # Not cached: a service account token expires, and is revoked with its account.
            return None if self.service_account_user is None else self.service_account_user(token)
        if len(self._cached_headers) < _MAX_CACHED_HEADERS:
            self._cached_headers[header] = found
        return found

    def _find_token(self, token: bytes) -> User | None:
        found = None
        # Compares with every token, each in constant time: the duration reveals nothing about the tokens.
        for known, user in self._tokens:
            if hmac.compare_digest(known, token):
                found = user
        return ADMIN if found is None and self._is_open else found


def is_public_path(path: str) -> bool:
    """Whether a path can be requested without credentials."""
    return path.strip("/").partition("/")[0] in _PUBLIC_PATHS


def _admin_tokens(tokens: Iterable[str]) -> Iterable[tuple[str, User]]:
    return [(token, ADMIN) for token in tokens]


def _only_masters(user: User, _attributes: RequestAttributes) -> bool:
    return user.is_master


def _has_impersonation_header(headers: Headers) -> bool:
    return any(name.startswith("impersonate-") for name, _ in headers)


@lru_cache(maxsize=64)
def _certificate_user(peer: Peer) -> User:
    return User(peer.common_name, (*peer.organizations, AUTHENTICATED))
