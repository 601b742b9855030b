"""User impersonation: the `Impersonate-` headers of a request and the permissions that they need.

Each header needs the verb `impersonate` on the resource that it names: users, groups, serviceaccounts, uids and
userextras. The check cannot be bypassed by leaving out the user or by sending a header twice: both are errors.
"""

from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import unquote

from levelset.apiserver.authn.request_attributes import RequestAttributes, forbidden_error
from levelset.apiserver.authn.users import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, service_account_groups
from levelset.errors import BadRequest
from levelset.http import Headers

__all__ = ["impersonate"]

_USER: Final = "impersonate-user"
_GROUP: Final = "impersonate-group"
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


def impersonate(user: User, headers: Headers, may_impersonate: Callable[[User, RequestAttributes], bool]) -> User:
    """The impersonated user; raises Forbidden if `user` lacks one of the permissions that the headers need.

    Raises BadRequest if the user or the uid is sent twice, or if no user is sent.
    """
    name, uid = _single(headers, _USER), _single(headers, _UID)
    if not name:
        raise BadRequest("a group, uid or extra was sent without impersonating a user name: send Impersonate-User too")
    groups = tuple(one for one in headers.get_all(_GROUP) if one)
    extra = _extra(headers)
    for attributes in _needed_permissions(name, groups, uid, extra):
        if not may_impersonate(user, attributes):
            raise forbidden_error(user, attributes)
    account = _service_account(name)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    return User(name, _with_authentication_group(name, groups), uid, extra, impersonated_by=user)


def _single(headers: Headers, name: str) -> str:
    values = headers.get_all(name)
    if len(values) > 1:
        # A proxy in front may have checked another of the values than the one this server would use.
        raise BadRequest(f"the header {name} was sent {len(values)} times: send it once")
    return values[0] if values else ""


def _extra(headers: Headers) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(name for name, _ in headers):
        if name.startswith(_EXTRA):
            key = unquote(name.removeprefix(_EXTRA)).lower()
            found[key] = found.get(key, ()) + headers.get_all(name)
    return tuple(sorted(found.items()))


def _needed_permissions(
    user: str, groups: tuple[str, ...], uid: str, extra: tuple[tuple[str, tuple[str, ...]], ...]
) -> Iterator[RequestAttributes]:
    account = _service_account(user)
    if account is None:
        yield RequestAttributes("impersonate", "", "users", name=user)
    else:
        yield RequestAttributes("impersonate", "", "serviceaccounts", namespace=account[0], name=account[1])
    for group in groups:
        yield RequestAttributes("impersonate", "", "groups", name=group)
    if uid:
        yield RequestAttributes("impersonate", _AUTHENTICATION, "uids", name=uid)
    for key, values in extra:
        for value in values:
            yield RequestAttributes("impersonate", _AUTHENTICATION, "userextras", key, name=value)


def _service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account; None if the user is not one."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, _, name = user.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return (namespace, name) if namespace and name and ":" not in name else None


def _with_authentication_group(user: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups with `system:authenticated`, or `system:unauthenticated` for the anonymous user."""
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, UNAUTHENTICATED if user == ANONYMOUS.name else AUTHENTICATED)
