"""The variable `authorizer` of conditions and policies: asks what the sender of a request, or somebody else, may do."""

from typing import TYPE_CHECKING, Any

from levelset.apiserver.authn.request_attributes import Attempt
from levelset.apiserver.authn.users import Caller, account_caller
from levelset.apiserver.resources.server_state import Tree, World

if TYPE_CHECKING:
    from levelset.cel import Decision, PathCheck, ResourceCheck

__all__ = ["authorizer_values", "sender_of"]


def authorizer_values(world: World, request: Tree) -> dict[str, Any]:
    """The variables `authorizer` and `authorizer.requestResource` for the sender of this request.

    Without roles everything is allowed to members of `system:masters`, such as the owner, and nothing to others: as
    requests themselves are judged.
    """
    # Late: who has no expressions needs no compiler, and it takes a while to load.
    from levelset.cel import Authorizer, Decision, PathCheck, ResourceCheck  # noqa: PLC0415

    caller = sender_of(request)

    def decide(check: "PathCheck | ResourceCheck", verb: str, user: str | None) -> "Decision":
        who = caller if user is None else _account(user)
        if isinstance(check, PathCheck):
            attempt = Attempt(verb, path=check.path)
        else:
            attempt = Attempt(verb, check.group, check.resource, check.subresource, check.namespace, check.name)
        if world.rbac is None:
            return Decision(who.is_master)
        found = world.rbac.decide(who, attempt)
        return Decision(found.allowed, found.reason)

    authorizer, resource = Authorizer(decide), request["requestResource"]
    own = ResourceCheck(
        authorizer,
        resource["group"],
        resource["resource"],
        request.get("subResource", ""),
        request.get("namespace", ""),
        request.get("name", ""),
    )
    return {"authorizer": authorizer, "authorizer.requestResource": own}


def sender_of(request: Tree) -> Caller:
    """Who has sent a request, as the request of an AdmissionReview tells it."""
    user: Tree = request["userInfo"]
    more: dict[str, list[str]] = user.get("extra") or {}
    extra = tuple((name, tuple(values)) for name, values in more.items())
    return Caller(user["username"], tuple(user.get("groups") or ()), user.get("uid", ""), extra)


def _account(user: str) -> Caller:
    namespace, _, name = user.removeprefix("system:serviceaccount:").partition(":")
    return account_caller(namespace, name)
