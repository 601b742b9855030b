"""Speaking for somebody else: the `Impersonate-` headers of a request, and what right each of them needs.

Who may impersonate what is decided like anything else: the verb `impersonate` on users, groups, service accounts, uids
and extras, each by its name. Nobody gets around that by leaving out the user, or by sending a header twice.
"""

from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import unquote

from levelset.apiserver.authn.request_attributes import Attempt, forbidden_attempt
from levelset.apiserver.authn.users import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, Caller, account_groups
from levelset.errors import BadRequest, Forbidden
from levelset.http import Headers

__all__ = ["impersonate"]

_USER: Final = "impersonate-user"
_GROUP: Final = "impersonate-group"
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"
_ACCOUNT: Final = "system:serviceaccount:"


def impersonate(caller: Caller, headers: Headers, allows: Callable[[Caller, Attempt], bool]) -> Caller:
    """The one whom the headers name; raises Forbidden if the caller may not speak for them in all that they ask.

    Raises BadRequest for a user or uid that is named twice, and Forbidden without a user.
    """
    user, uid = _single(headers, _USER), _single(headers, _UID)
    if not user:
        raise Forbidden("impersonation needs a user: send the header Impersonate-User too")
    groups = tuple(one for one in headers.get_all(_GROUP) if one)
    extra = _extra(headers)
    for attempt in _attempts(user, groups, uid, extra):
        if not allows(caller, attempt):
            raise forbidden_attempt(caller, attempt)
    account = _account(user)
    if account is not None and not groups:
        groups = account_groups(account[0])
    return Caller(user, _completed(user, groups), uid, extra, by=caller)


def _single(headers: Headers, name: str) -> str:
    values = headers.get_all(name)
    if len(values) > 1:
        # The first one, the last one or both in one: whoever checked the request before us may have read another.
        raise BadRequest(f"the header {name} was sent {len(values)} times: send it once")
    return values[0] if values else ""


def _extra(headers: Headers) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(name for name, _ in headers):
        if name.startswith(_EXTRA):
            key = unquote(name.removeprefix(_EXTRA)).lower()
            found[key] = found.get(key, ()) + headers.get_all(name)
    return tuple(sorted(found.items()))


def _attempts(
    user: str, groups: tuple[str, ...], uid: str, extra: tuple[tuple[str, tuple[str, ...]], ...]
) -> Iterator[Attempt]:
    account = _account(user)
    if account is None:
        yield Attempt("impersonate", "", "users", name=user)
    else:
        yield Attempt("impersonate", "", "serviceaccounts", namespace=account[0], name=account[1])
    for group in groups:
        yield Attempt("impersonate", "", "groups", name=group)
    if uid:
        yield Attempt("impersonate", _AUTHENTICATION, "uids", name=uid)
    for key, values in extra:
        for value in values:
            yield Attempt("impersonate", _AUTHENTICATION, "userextras", key, name=value)


def _account(user: str) -> tuple[str, str] | None:
    """Namespace and name, if the user is a service account."""
    if not user.startswith(_ACCOUNT):
        return None
    namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
    return (namespace, name) if namespace and name and ":" not in name else None


def _completed(user: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups with the one that everybody is in, who is known or not."""
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, UNAUTHENTICATED if user == ANONYMOUS.name else AUTHENTICATED)
