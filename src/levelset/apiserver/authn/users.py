"""Users: the identity that a request is authenticated as, and the user and group names that Kubernetes reserves."""

from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "AUTHENTICATED",
    "MASTERS",
    "UNAUTHENTICATED",
    "User",
    "service_account_groups",
    "service_account_user",
    "user_info",
]

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    """The authenticated user of a request: its name, groups, uid and extra attributes."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further attributes for authorizers, each name with its values."""
    impersonated_by: "User | None" = field(default=None, compare=False)
    """The user whose credentials the request carried, if this user is impersonated; otherwise None."""
    is_master: bool = field(init=False, compare=False, repr=False)
    """Whether the user is in `system:masters` and may do everything; computed once, since every request checks it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_master", MASTERS in self.groups)


ADMIN: Final = User("levelset-admin", (MASTERS, AUTHENTICATED))
"""The user of the server's own admin token."""
ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))


def service_account_user(
    namespace: str, name: str, uid: str = "", extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> User:
    """The user that a service account is authenticated as."""
    groups = (*service_account_groups(namespace), AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra)


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of every service account of a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def user_info(user: User) -> dict[str, object]:
    """The user as the `UserInfo` of admission reviews, token reviews and audit events."""
    tree: dict[str, object] = {"username": user.name}
    if user.uid:
        tree["uid"] = user.uid
    tree["groups"] = list(user.groups)
    if user.extra:
        tree["extra"] = {name: list(values) for name, values in user.extra}
    return tree
