"""Service account tokens: issues them for TokenRequests and authenticates them while their account exists.

A token is issued by `POST .../serviceaccounts/{name}/token`. It is valid until it expires, or until its account, or the
pod, secret or node that it is bound to, is deleted; every use checks the store, which is in memory.

The tokens are JSON Web Tokens signed with HS256 and the server's own key; PyJWT signs and verifies them. Only their
times are compared here, with the server's clock at every use: PyJWT knows only that of the system.
"""

import base64
import binascii
import logging
import secrets
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from levelset.apiserver.authn.secret_box import SecretBox
from levelset.apiserver.authn.users import User, service_account_user
from levelset.apiserver.registry.metadata import is_deleting
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.errors import ServerFailed
from levelset.objects import decode_tree, encode_tree
from levelset.storage import Mismatch

__all__ = ["AUDIENCE", "ServiceAccountTokens", "sign_token", "verify_token"]

log = logging.getLogger(__name__)

AUDIENCE: Final = "https://kubernetes.default.svc"
SIGNING_KEY_PATH: Final = "/levelset/secrets/token-signing"
_KUBERNETES: Final = "kubernetes.io"
_PREFIX: Final = "authentication.kubernetes.io/"
_BOUND: Final = {"node": "nodes", "pod": "pods", "secret": "secrets"}
_MAX_CACHED_TOKENS: Final = 1024
_ALGORITHM: Final = "HS256"
_REQUIRED_CLAIMS: Final = ("aud", "exp", "iss", "nbf", "sub")
_MAX_TOKEN_LENGTH: Final = 16 * 1024


class ServiceAccountTokens:
    """Issues and authenticates service account tokens.

    The signing key is in the store, under a key that no request can read. In a store that other processes use, it is
    encrypted with `box`; without one, each server has a key of its own there, which ends with it.
    """

    def __init__(self, state: ServerState, box: SecretBox | None = None) -> None:
        self._state = state
        self.box = box
        self._key: bytes | None = None
        # Claims of verified tokens by token and audiences; whether they are still valid is checked at every use.
        self._verified: dict[tuple[str, tuple[str, ...] | None], Tree] = {}

    async def load(self) -> None:
        """Loads the signing key of a server that used this store before; encrypts one that is not."""
        item = self._state.reader.get_nowait(SIGNING_KEY_PATH)
        if self._find_key() and item is not None and self.box is not None and _is_plain(item.value):
            with suppress(Mismatch):  # another server has done it
                sealed = self.box.seal("token-signing", item.value)
                await self._state.storage.put(SIGNING_KEY_PATH, sealed, expected=item.revision)

    async def sign(self, account: Tree, *, audiences: list[str], expires: datetime, bound: Tree | None) -> str:
        """A token for the account; `bound` is the object whose deletion invalidates the token, if any."""
        namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
        now = int(self._state.now().timestamp())
        subject: Tree = {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]}}
        if bound is not None:
            kind = str(bound["kind"]).lower()
            subject[kind] = {"name": bound["metadata"]["name"], "uid": bound["metadata"]["uid"]}
        claims = {
            "aud": audiences,
            "exp": int(expires.timestamp()),
            "iat": now,
            "iss": AUDIENCE,
            "jti": secrets.token_hex(16),
            _KUBERNETES: subject,
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        return sign_token(claims, await self._signing_key())

    def authenticate(self, token: str, audiences: tuple[str, ...] = (AUDIENCE,)) -> User | None:
        """The user of a token; None if it is not valid.

        That is: not signed by this server, expired, for none of these audiences, or of an account that is gone.
        """
        claims = self._read(token, audiences)
        if claims is None or not self._is_current(claims):
            return None
        subject = map_member(claims, _KUBERNETES)
        namespace, account = subject.get("namespace"), map_member(subject, "serviceaccount")
        if not self._exists("serviceaccounts", str(namespace), account):
            return None
        extra: dict[str, tuple[str, ...]] = {f"{_PREFIX}credential-id": (f"JTI={claims.get('jti')}",)}
        for kind, plural in _BOUND.items():
            found = map_member(subject, kind)
            if found:
                if not self._exists(plural, "" if kind == "node" else str(namespace), found):
                    return None
                extra |= {f"{_PREFIX}{kind}-{word}": (str(found.get(word)),) for word in ("name", "uid")}
        return service_account_user(
            str(namespace), str(account["name"]), str(account["uid"]), tuple(sorted(extra.items()))
        )

    def audiences(self, token: str) -> list[str]:
        """The audiences of a token that this server signed; empty for any other token."""
        claims = self._read(token, None)
        return [] if claims is None else [str(one) for one in list_member(claims, "aud")]

    def _read(self, token: str, audiences: tuple[str, ...] | None) -> Tree | None:
        if self._key is None and not self._find_key():
            return None
        assert self._key is not None
        claims = self._verified.get((token, audiences))
        if claims is None:
            claims = verify_token(token, self._key, audiences)
            if claims is not None:
                if len(self._verified) >= _MAX_CACHED_TOKENS:
                    self._verified.clear()
                self._verified[token, audiences] = claims
        return claims

    def _is_current(self, claims: Tree) -> bool:
        not_before, expires = claims.get("nbf"), claims.get("exp")
        now = self._state.now()
        if not isinstance(not_before, int) or not isinstance(expires, int):
            return False
        # Tolerates a clock that was set back a little since the token was issued.
        return not_before <= (now + timedelta(seconds=60)).timestamp() and now.timestamp() < expires

    def _exists(self, plural: str, namespace: str, wanted: Tree) -> bool:
        served = self._state.catalog.find("", "v1", plural)
        if served is None or not wanted.get("name"):
            return False
        item = self._state.reader.get_nowait(served.key(namespace, str(wanted["name"])))
        if item is None:
            return False
        tree: Tree = decode_tree(item.value)
        return tree["metadata"].get("uid") == wanted.get("uid") and not is_deleting(tree)

    def _find_key(self) -> bool:
        """Whether the store has the signing key, which another server may have created since."""
        item = self._state.reader.get_nowait(SIGNING_KEY_PATH)
        if item is None or (self._state.shared is not None and self.box is None):
            return False
        is_sealed = self.box is not None and not _is_plain(item.value)
        self._key = _decode_key(self.box.open("token-signing", item.value) if self.box and is_sealed else item.value)
        return True

    async def _signing_key(self) -> bytes:
        if self._key is None and not self._find_key():
            key = secrets.token_bytes(32)
            if self._state.shared is not None and self.box is None:
                log.warning("service account tokens of this server end with it: give it an authority or a secrets key")
                self._key = key
                return key
            stored = _encode_key(key)
            if self.box is not None:
                stored = self.box.seal("token-signing", stored)
            try:
                await self._state.storage.put(SIGNING_KEY_PATH, stored, expected=0)
            except Mismatch:  # another request created the key at the same time
                self._find_key()
            else:
                self._key = key
        assert self._key is not None
        return self._key


def sign_token(claims: dict[str, Any], key: bytes) -> str:
    """The claims as a JSON Web Token signed with the key."""
    import jwt  # noqa: PLC0415 - most servers issue no tokens, and it loads a part of `cryptography`

    return jwt.encode(claims, key, _ALGORITHM)


def verify_token(token: str, key: bytes, audiences: tuple[str, ...] | None) -> dict[str, Any] | None:
    """The claims of a token that was signed with this key for one of the audiences (None: for any), else None.

    Its times are not checked.
    """
    if len(token) > _MAX_TOKEN_LENGTH or not token.isascii():
        return None
    import jwt  # noqa: PLC0415 - as above

    try:
        return jwt.decode(
            token,
            key,
            algorithms=[_ALGORITHM],
            audience=audiences,
            issuer=AUDIENCE,
            options={
                "require": [*_REQUIRED_CLAIMS],
                "verify_aud": audiences is not None,
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except (jwt.InvalidTokenError, RecursionError):  # the header is read before the signature is verified
        return None


def _encode_key(key: bytes) -> bytes:
    metadata = {"name": "token-signing"}
    tree = {"apiVersion": "levelset/v1", "kind": "SigningKey", "metadata": metadata}
    return encode_tree({**tree, "key": base64.b64encode(key).decode("ascii")})


def _is_plain(value: bytes) -> bool:
    tree: Any = decode_tree(value)
    return "key" in tree


def _decode_key(value: bytes) -> bytes:
    tree: Any = decode_tree(value)
    try:
        key = base64.b64decode(tree["key"], validate=True)
    except (KeyError, TypeError, binascii.Error, ValueError):
        key = b""
    if len(key) < 32:
        raise ServerFailed(
            f"the signing key at {SIGNING_KEY_PATH} is damaged: delete it, which invalidates all service account tokens"
        )
    return key
