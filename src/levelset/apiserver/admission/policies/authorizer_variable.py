"""The CEL variable `authorizer` of match conditions and policies: what the user of a request may do."""

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from levelset.apiserver.authn.request_attributes import RequestAttributes
from levelset.apiserver.authn.users import User, service_account_user
from levelset.apiserver.resources.server_state import ServerState, Tree

if TYPE_CHECKING:
    from levelset.cel import Decision, PathCheck, ResourceCheck

__all__ = ["authorizer_values", "request_user"]


def authorizer_values(state: ServerState, request: Tree) -> dict[str, Any]:
    """The variables `authorizer` and `authorizer.requestResource` for the user of this review request.

    Without RBAC, members of `system:masters` may do everything and other users nothing, as for requests.
    """
    # Imported late: the CEL package takes a while to load, and most servers evaluate no expressions.
    from levelset.cel import Authorizer, Decision, PathCheck, ResourceCheck  # noqa: PLC0415

    requester = request_user(request)

    def decide(check: "PathCheck | ResourceCheck", verb: str, user: str | None) -> "Decision":
        subject = requester if user is None else _service_account(user)
        if isinstance(check, PathCheck):
            attributes = RequestAttributes(verb, path=check.path)
        else:
            attributes = RequestAttributes(
                verb, check.group, check.resource, check.subresource, check.namespace, check.name
            )
        if state.rbac is None:
            return Decision(subject.is_master)
        found = state.rbac.decide(subject, attributes)
        return Decision(found.allowed, found.reason)

    authorizer, resource = Authorizer(_on_loop(decide)), request["requestResource"]
    request_resource = ResourceCheck(
        authorizer,
        resource["group"],
        resource["resource"],
        request.get("subResource", ""),
        request.get("namespace", ""),
        request.get("name", ""),
    )
    return {"authorizer": authorizer, "authorizer.requestResource": request_resource}


def _on_loop(decide: "Callable[..., Decision]") -> "Callable[..., Decision]":
    """The same function for any thread: another one waits until the event loop, whose data it reads, has decided."""
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    async def answer(*question: Any) -> "Decision":
        return decide(*question)

    def decide_on_loop(*question: Any) -> "Decision":
        if threading.get_ident() == thread:
            return decide(*question)
        return asyncio.run_coroutine_threadsafe(answer(*question), loop).result()

    return decide_on_loop


def request_user(request: Tree) -> User:
    """The user of a review request, from its `userInfo`."""
    info: Tree = request["userInfo"]
    attributes: dict[str, list[str]] = info.get("extra") or {}
    extra = tuple((name, tuple(values)) for name, values in attributes.items())
    return User(info["username"], tuple(info.get("groups") or ()), info.get("uid", ""), extra)


def _service_account(user: str) -> User:
    namespace, _, name = user.removeprefix("system:serviceaccount:").partition(":")
    return service_account_user(namespace, name)
