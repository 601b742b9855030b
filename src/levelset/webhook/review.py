"""What an admission function is told beside the object: who wants what, what was there before, and how to warn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

from levelset.client.client import Client
from levelset.errors import NotReady
from levelset.objects.trees import is_list, is_map

__all__ = ["LONGEST_WARNING", "Notes", "Operation", "Review", "User", "fit_warnings"]

K = TypeVar("K")

Operation = Literal["connect", "create", "delete", "update"]

LONGEST_WARNING: Final = 256
"""More of one warning an API server cuts off."""
_ALL_WARNINGS: Final = 4096


@dataclass(frozen=True, slots=True)
class User:
    """Who sent the request, as the server has found out."""

    name: str
    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


@dataclass(slots=True)
class Notes:
    """What functions have said about a request beside yes and no."""

    warnings: list[str] = field(default_factory=list[str])
    audit: dict[str, str] = field(default_factory=dict[str, str])


class Review(Generic[K]):
    """One question, whether something may be written and as what.

    `new` is the object as it would be stored, with what functions before this one have changed; when an object is to be
    deleted, it is the one that goes. `old` is the object before, None if there is none; it is read when it is asked
    for, so that an object that no longer fits its class can still be mended. `dry_run` says that nothing will be
    stored: a function with effects of its own must not have them then.
    """

    __slots__ = (
        "_client",
        "_new",
        "_notes",
        "_old",
        "dry_run",
        "name",
        "namespace",
        "operation",
        "options",
        "subresource",
        "uid",
        "user",
    )

    def __init__(
        self,
        request: Mapping[str, Any],
        new: Callable[[], K],
        old: Callable[[], K | None],
        *,
        notes: Notes,
        client: Client | None = None,
    ) -> None:
        self.uid: str = request["uid"]
        self.operation: Operation = request["operation"].lower()
        self.name: str = request.get("name") or ""
        self.namespace: str | None = request.get("namespace") or None
        self.subresource: str = request.get("subResource") or ""
        self.user = _user(request.get("userInfo") or {})
        self.dry_run: bool = request.get("dryRun") is True
        self.options: Mapping[str, Any] = request.get("options") or {}
        self._new, self._old = new, old
        self._client = client
        self._notes = notes

    @property
    def new(self) -> K:
        """The object that is asked about."""
        return self._new()

    @property
    def old(self) -> K | None:
        """The object before; None when it is created. BadObject if its class cannot hold it."""
        return self._old()

    @property
    def client(self) -> Client:
        """A client of the server that asks; NotReady where the function is called without one."""
        if self._client is None:
            raise NotReady("there is no client here: run the webhooks in a manager, or give Endpoint(client=...)")
        return self._client

    def warn(self, text: str) -> None:
        """Tells whoever sent the request, whether it is allowed or not; kubectl prints it. Short is better."""
        self._notes.warnings.append(text)

    def annotate(self, key: str, value: str) -> None:
        """Puts a note about this decision into the server's audit log."""
        self._notes.audit[key] = value

    def __repr__(self) -> str:
        where = "/".join(one for one in (self.namespace, self.name, self.subresource) if one)
        return f"Review({self.operation} {where} for {self.user.name})"


def fit_warnings(warnings: Sequence[str]) -> list[str]:
    """The warnings as an API server takes them: one line each, none too long, and not too much of all together."""
    fitted: list[str] = []
    left = _ALL_WARNINGS
    for text in warnings:
        line = " ".join("".join(one if one.isprintable() else " " for one in str(text)).split())
        line = line if len(line) <= LONGEST_WARNING else f"{line[: LONGEST_WARNING - 3]}..."
        if not line or len(line) > left or line in fitted:
            continue
        fitted.append(line)
        left -= len(line)
    return fitted


def _user(tree: Mapping[str, Any]) -> User:
    extra: Any = tree.get("extra")
    more = {name: _texts(values) for name, values in extra.items()} if is_map(extra) else {}
    return User(str(tree.get("username") or ""), _texts(tree.get("groups")), str(tree.get("uid") or ""), more)


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in values) if is_list(values) else ()
