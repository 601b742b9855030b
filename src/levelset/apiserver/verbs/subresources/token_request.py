"""The `token` subresource of service accounts: issues a token for a TokenRequest."""

import functools
from datetime import timedelta
from typing import Any, Final

from msgspec.structs import replace

from levelset.apiserver.authn.service_account_tokens import AUDIENCE, ServiceAccountTokens
from levelset.apiserver.authz.access_reviews import MAX_REVIEW_BYTES
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.metadata import format_timestamp
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import builtin_kind, field_errors
from levelset.apiserver.verbs.get_and_list import get_item
from levelset.apiserver.verbs.write_admission import admit_posted
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.negotiation import read_posted
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.request_paths import RequestPath
from levelset.apiserver.wire.status_errors import method_not_allowed, too_large
from levelset.errors import BadRequest, Cause
from levelset.http import Request

__all__ = ["TokenRequests"]

GROUP: Final = "authentication.k8s.io"
MIN_SECONDS: Final = 600
MAX_SECONDS: Final = 1 << 32
DEFAULT_SECONDS: Final = 3600
_BOUND: Final = {"Node": "nodes", "Pod": "pods", "Secret": "secrets"}

_REQUEST: Final = ServedResource(
    *(GROUP, "v1", "TokenRequest", "tokenrequests", "tokenrequest", "TokenRequestList"),
    namespaced=True,
    storage_version="v1",
    schema=functools.partial(builtin_kind, GROUP, "v1", "TokenRequest"),
)


class TokenRequests:
    """Handles TokenRequests; nothing is stored."""

    def __init__(self, tokens: ServiceAccountTokens) -> None:
        self._tokens = tokens

    async def handle(
        self, state: ServerState, served: ServedResource, path: RequestPath, request: Request, warnings: list[str]
    ) -> Object:
        """Returns the request with a token in its status; raises NotFound, BadRequest, Invalid, Conflict (wrong uid).

        A handler of `ServerState.subresource_handlers`.
        """
        if request.method != "POST" or path.name is None or path.namespace is None:
            raise method_not_allowed()
        tree, options = _read(request, path.namespace, path.name, warnings)
        account = served_tree(served, get_item(state, served, path.namespace, path.name))
        _check_account(tree, account)
        tree["spec"] = _checked_spec(tree)
        tree["metadata"] |= {"name": path.name, "namespace": path.namespace}
        is_given = bool(list_member(tree["spec"], "audiences"))
        tree["spec"]["audiences"] = list_member(tree["spec"], "audiences") or [AUDIENCE]
        await admit_posted(state, served, tree, options, request, kind=_REQUEST, warnings=warnings)
        spec = _checked_spec(tree)  # as mutating plugins have left it
        bound = _bound(state, account, map_member(spec, "boundObjectRef"))
        expires = state.now() + timedelta(seconds=spec["expirationSeconds"])
        now = format_timestamp(state.now())
        tree["metadata"] |= {"uid": account["metadata"]["uid"], "creationTimestamp": now}
        owned = spec if is_given else {name: value for name, value in spec.items() if name != "audiences"}
        strategy.track_new_object(_REQUEST, {**tree, "spec": owned}, manager=options.manager, now=now)
        for entry in tree["metadata"].get("managedFields", ()):
            entry["subresource"] = "token"
        audiences = list_member(spec, "audiences") or [AUDIENCE]
        tree["spec"] = {"boundObjectRef": None, **spec, "audiences": audiences}
        token = await self._tokens.sign(account, audiences=audiences, expires=expires, bound=bound)
        return {**tree, "status": {"token": token, "expirationTimestamp": format_timestamp(expires)}}


def _read(request: Request, namespace: str, name: str, warnings: list[str]) -> tuple[Object, WriteOptions]:
    """Returns the request as an object, and its options."""
    if len(request.body) > MAX_REVIEW_BYTES:
        raise too_large(MAX_REVIEW_BYTES)
    body, options = read_posted(request, "token")
    body.tree.pop("status", None)  # Go clients send an empty one
    decoded = strategy.decode_new(_REQUEST, namespace, body.tree, options)
    warnings += options.warnings
    if decoded.causes:
        raise status_errors.invalid(_REQUEST, "", decoded.causes)
    given = body.tree["metadata"].get("name")
    if given and given != name:
        problem = "must match the service account name if specified"
        raise status_errors.invalid(_REQUEST, name, [field_errors.invalid("metadata.name", given, problem)])
    return body.tree, options


def _check_account(tree: Object, account: Object) -> None:
    """Raises Conflict if the request is for another account of the same name."""
    name, known, given = account["metadata"]["name"], account["metadata"]["uid"], tree["metadata"].get("uid")
    if given and given != known:
        problem = f"the UID in the token request ({given}) does not match the UID of the service account ({known})"
        raise status_errors.conflict(replace(_REQUEST, plural="TokenRequest"), name, problem)


def _checked_spec(tree: Object) -> Object:
    """Returns the spec with a duration; raises Invalid if it is too short or too long."""
    spec = map_member(tree, "spec")
    seconds = spec.get("expirationSeconds")
    causes = _check_seconds(seconds)
    if causes:
        raise status_errors.invalid(_REQUEST, "", causes)
    return {**spec, "expirationSeconds": seconds or DEFAULT_SECONDS}


def _check_seconds(seconds: Any) -> list[Cause]:
    if seconds is None:
        return []
    field = "spec.expirationSeconds"
    if seconds < MIN_SECONDS:
        return [field_errors.invalid(field, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > MAX_SECONDS:
        return [field_errors.invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _bound(state: ServerState, account: Object, reference: Object) -> Object | None:
    """Returns the object that the token is bound to; None if the request names none."""
    if not reference:
        return None
    kind, name = reference.get("kind"), reference.get("name") or ""
    plural = _BOUND.get(str(kind)) if reference.get("apiVersion") in ("v1", None, "") else None
    served = None if plural is None else state.catalog.find("", "v1", plural)
    if served is None:
        version = str(reference.get("apiVersion") or "")
        known = version if "/" in version else f"/{version}"  # as Go writes a group, a version and a kind
        raise BadRequest(f"cannot bind token to object of type {known}, Kind={kind or ''}")
    if not name:
        raise BadRequest("Name parameter required.")
    found = served_tree(served, get_item(state, served, account["metadata"]["namespace"], name))
    uid, given = found["metadata"].get("uid"), reference.get("uid")
    if given and given != uid:
        problem = f"the UID in the bound object reference ({given}) does not match the UID in record"
        text = f"{problem}. The object might have been deleted and then recreated"
        raise status_errors.conflict(replace(served, group="", plural=str(kind)), name, text)
    if (
        kind == "Pod"
        and (map_member(found, "spec").get("serviceAccountName") or "default") != account["metadata"]["name"]
    ):
        name = account["metadata"]["name"]
        raise BadRequest(
            f'cannot bind token for serviceaccount "{name}" to pod running with different serviceaccount name.'
        )
    return found
