"""Who may be asking: a user with the groups it is in, and the names that mean something to every server."""

from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "ANONYMOUS",
    "AUTHENTICATED",
    "MASTERS",
    "OWNER",
    "UNAUTHENTICATED",
    "Caller",
    "account_caller",
    "account_groups",
    "user_info",
]

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class Caller:
    """The one who sent a request: a user name and the groups it is in."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """More about the user, for those who decide by it; each name with its values."""
    by: "Caller | None" = field(default=None, compare=False)
    """Who really sent it, and speaks for this one; None if they are the same."""
    is_master: bool = field(init=False, compare=False, repr=False)
    """Whether the caller may do everything; worked out once, for it is asked at every request."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_master", MASTERS in self.groups)


OWNER: Final = Caller("levelset-admin", (MASTERS, AUTHENTICATED))
ANONYMOUS: Final = Caller("system:anonymous", (UNAUTHENTICATED,))


def account_caller(
    namespace: str, name: str, uid: str = "", extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> Caller:
    """A service account as a caller."""
    groups = (*account_groups(namespace), AUTHENTICATED)
    return Caller(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra)


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups that every service account of a namespace is in."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def user_info(caller: Caller) -> dict[str, object]:
    """The caller as `UserInfo`, as reviews and logs show it."""
    tree: dict[str, object] = {"username": caller.name}
    if caller.uid:
        tree["uid"] = caller.uid
    tree["groups"] = list(caller.groups)
    if caller.extra:
        tree["extra"] = {name: list(values) for name, values in caller.extra}
    return tree
