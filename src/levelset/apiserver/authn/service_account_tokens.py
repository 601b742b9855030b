"""Service accounts as callers: tokens that the server signs for them, and believes as long as the account is there.

A token is made by `POST .../serviceaccounts/{name}/token`. It ends with its time, with its account, and with the pod or
secret it may be bound to; so every use of it looks at the store, which is in memory.

Signed claims in the form of JSON Web Tokens, of the one kind that this server makes: HS256 with its own secret.

Nothing in a token says how it is to be checked: a header that names another algorithm is refused before anything else
is looked at.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.authn.users import Caller, account_caller
from levelset.apiserver.registry.metadata import is_deleting
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.server_state import Tree, World
from levelset.errors import ServerFailed
from levelset.objects import decode_tree, encode_tree
from levelset.storage import Mismatch

__all__ = ["AUDIENCE", "Accounts", "read_token", "sign_token"]

_HEADER: Final = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=")
_LONGEST: Final = 16 * 1024


def sign_token(claims: dict[str, Any], key: bytes) -> str:
    """The claims as a token that nobody can make, or change, without the key."""
    signed = _HEADER + b"." + _packed(msgspec.json.encode(claims))
    return (signed + b"." + _packed(_signature(signed, key))).decode("ascii")


def read_token(token: str, key: bytes) -> dict[str, Any] | None:
    """The claims of a token that was signed with this key; None for anything else."""
    if len(token) > _LONGEST or not token.isascii():
        return None
    signed, _, signature = token.encode("ascii").rpartition(b".")
    header, _, payload = signed.partition(b".")
    if header != _HEADER or not hmac.compare_digest(_packed(_signature(signed, key)), signature):
        return None
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
    except (binascii.Error, msgspec.DecodeError, ValueError):
        return None
    return cast("dict[str, Any]", claims) if isinstance(claims, dict) else None


def _signature(signed: bytes, key: bytes) -> bytes:
    return hmac.digest(key, signed, hashlib.sha256)


def _packed(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


AUDIENCE: Final = "https://kubernetes.default.svc"
KEY: Final = "/levelset/secrets/token-signing"
_KUBERNETES: Final = "kubernetes.io"
_PREFIX: Final = "authentication.kubernetes.io/"
_BOUND: Final = {"node": "nodes", "pod": "pods", "secret": "secrets"}
_MOST_KNOWN: Final = 1024


class Accounts:
    """Signs tokens, and tells whose they are. The secret is in the store, out of the reach of every request."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._key: bytes | None = None
        # Tokens whose signature was found good; whether they still count is asked every time.
        self._known: dict[str, Tree] = {}

    async def load(self) -> None:
        """Takes in the secret of a server that ran on this store before."""
        item = await self._world.storage.get(KEY)
        if item is not None:
            self._key = _read_key(item.value)

    async def sign(self, account: Tree, *, audiences: list[str], expires: datetime, bound: Tree | None) -> str:
        """A token for the account until then; `bound` is the object that it ends with, if there is one."""
        namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
        now = int(self._world.now().timestamp())
        about: Tree = {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]}}
        if bound is not None:
            kind = str(bound["kind"]).lower()
            about[kind] = {"name": bound["metadata"]["name"], "uid": bound["metadata"]["uid"]}
        claims = {
            "aud": audiences,
            "exp": int(expires.timestamp()),
            "iat": now,
            "iss": AUDIENCE,
            "jti": secrets.token_hex(16),
            _KUBERNETES: about,
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        return sign_token(claims, await self._secret())

    def caller(self, token: str, audiences: tuple[str, ...] = (AUDIENCE,)) -> Caller | None:
        """Whose token this is; None if it is nobody's, not for any of these audiences, over, or of an account gone."""
        claims = self._read(token)
        if claims is None or not self._is_current(claims) or not set(audiences) & set(items(claims, "aud")):
            return None
        about = part(claims, _KUBERNETES)
        namespace, account = about.get("namespace"), part(about, "serviceaccount")
        if not self._is_there("serviceaccounts", str(namespace), account):
            return None
        extra: dict[str, tuple[str, ...]] = {f"{_PREFIX}credential-id": (f"JTI={claims.get('jti')}",)}
        for kind, plural in _BOUND.items():
            found = part(about, kind)
            if found:
                if not self._is_there(plural, "" if kind == "node" else str(namespace), found):
                    return None
                extra |= {f"{_PREFIX}{kind}-{word}": (str(found.get(word)),) for word in ("name", "uid")}
        return account_caller(str(namespace), str(account["name"]), str(account["uid"]), tuple(sorted(extra.items())))

    def audiences(self, token: str) -> list[str]:
        """Whom a token of ours is meant for."""
        claims = self._read(token)
        return [] if claims is None else [str(one) for one in items(claims, "aud")]

    def _read(self, token: str) -> Tree | None:
        if self._key is None:
            return None
        claims = self._known.get(token)
        if claims is None:
            claims = read_token(token, self._key)
            if claims is not None:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[token] = claims
        return claims

    def _is_current(self, claims: Tree) -> bool:
        begins, ends = claims.get("nbf"), claims.get("exp")
        now = self._world.now()
        if not isinstance(begins, int) or not isinstance(ends, int):
            return False
        # A clock that was set back a little since the token was made is no reason to refuse it.
        return begins <= (now + timedelta(seconds=60)).timestamp() and now.timestamp() < ends

    def _is_there(self, plural: str, namespace: str, wanted: Tree) -> bool:
        served, reader = self._world.catalog.find("", "v1", plural), self._world.reader
        if served is None or reader is None or not wanted.get("name"):
            return False
        item = reader.get_nowait(served.key(namespace, str(wanted["name"])))
        if item is None:
            return False
        tree: Tree = decode_tree(item.value)
        return tree["metadata"].get("uid") == wanted.get("uid") and not is_deleting(tree)

    async def _secret(self) -> bytes:
        if self._world.reader is None:
            raise ServerFailed("tokens need a storage that can be read at once; this server's cannot")
        if self._key is None:
            made = secrets.token_bytes(32)
            try:
                await self._world.storage.put(KEY, _write_key(made), expected=0)
            except Mismatch:  # somebody else asked for the first token at the same time
                await self.load()
            else:
                self._key = made
        assert self._key is not None
        return self._key


def _write_key(key: bytes) -> bytes:
    metadata = {"name": "token-signing"}
    tree = {"apiVersion": "levelset/v1", "kind": "SigningKey", "metadata": metadata}
    return encode_tree({**tree, "key": base64.b64encode(key).decode("ascii")})


def _read_key(value: bytes) -> bytes:
    tree: Any = decode_tree(value)
    try:
        key = base64.b64decode(tree["key"], validate=True)
    except (KeyError, TypeError, binascii.Error, ValueError):
        key = b""
    if len(key) < 32:
        raise ServerFailed(f"the secret under {KEY} is damaged: remove it, and all tokens of service accounts with it")
    return key
