"""The `token` subresource of service accounts: asks for a token, for some time, some audience and perhaps an object."""

import functools
from datetime import timedelta
from typing import Any, Final

from levelset.apiserver.authn.service_account_tokens import AUDIENCE, Accounts
from levelset.apiserver.authz.access_reviews import LARGEST
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.metadata import time_text
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.schema import builtin_kind, field_errors
from levelset.apiserver.verbs.create_and_update import get_item
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.negotiation import read_object
from levelset.apiserver.wire.request_options import write_options
from levelset.apiserver.wire.request_paths import Address
from levelset.apiserver.wire.status_errors import method_not_allowed, too_large
from levelset.errors import BadRequest, Cause
from levelset.http import Request, Response
from levelset.objects import encode_tree

__all__ = ["TokenRequests"]

GROUP: Final = "authentication.k8s.io"
SHORTEST: Final = 600
LONGEST: Final = 1 << 32
USUAL: Final = 3600
_BOUND: Final = {"Node": "nodes", "Pod": "pods", "Secret": "secrets"}

_REQUEST: Final = ServedResource(
    *(GROUP, "v1", "TokenRequest", "tokenrequests", "tokenrequest", "TokenRequestList"),
    namespaced=True,
    storage_version="v1",
    schema=functools.partial(builtin_kind, GROUP, "v1", "TokenRequest"),
)


class TokenRequests:
    """Answers the requests; nothing of them is stored."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def answer(self, world: World, served: ServedResource, address: Address, request: Request) -> Response:
        """The request with a token in its status; raises NotFound, BadRequest, Invalid, and Conflict for a wrong uid.

        A handler of `World.special`.
        """
        if request.method != "POST" or address.name is None or address.namespace is None:
            raise method_not_allowed(request.method, request.path)
        tree, spec = _read(request, address.namespace, address.name)
        item = await get_item(world, served.key(address.namespace, address.name))
        if item is None:
            raise status_errors.object_not_found(served, address.name)
        account = served_tree(served, item)
        bound = await _bound(world, account, part(spec, "boundObjectRef"))
        expires = world.now() + timedelta(seconds=spec["expirationSeconds"])
        token = await self._accounts.sign(account, audiences=spec["audiences"], expires=expires, bound=bound)
        metadata = {"name": address.name, "namespace": address.namespace, "creationTimestamp": time_text(world.now())}
        status = {"token": token, "expirationTimestamp": time_text(expires)}
        made = {**tree, "metadata": {**tree["metadata"], **metadata}, "spec": spec, "status": status}
        return Response(201, (("Content-Type", "application/json"),), encode_tree(made))


def _read(request: Request, namespace: str, name: str) -> tuple[Object, Object]:
    """The request as an object, and its spec with what it left out filled in."""
    if len(request.body) > LARGEST:
        raise too_large(LARGEST)
    body = read_object(request)
    body.tree.pop("status", None)  # Go clients send an empty one along
    options = write_options(request, "CreateOptions", duplicates=body.duplicates)
    decoded = strategy.begin_create(_REQUEST, namespace, body.tree, options)
    given = body.tree["metadata"].get("name")
    if given and given != name:
        raise BadRequest(f"the name of the object ({given}) does not match the name on the URL ({name})")
    spec = part(body.tree, "spec")
    seconds = spec.get("expirationSeconds")
    causes = decoded.causes or _check_seconds(seconds)
    if causes:
        raise status_errors.invalid(_REQUEST, "", causes)
    filled = {"audiences": items(spec, "audiences") or [AUDIENCE], "expirationSeconds": seconds or USUAL}
    return body.tree, {**spec, **filled}


def _check_seconds(seconds: Any) -> list[Cause]:
    if seconds is None:
        return []
    field = "spec.expirationSeconds"
    if seconds < SHORTEST:
        return [field_errors.invalid(field, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > LONGEST:
        return [field_errors.invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


async def _bound(world: World, account: Object, reference: Object) -> Object | None:
    """The object that the token is to end with, as it is stored; None if the request names none."""
    if not reference:
        return None
    kind, name = reference.get("kind"), reference.get("name") or ""
    plural = _BOUND.get(str(kind)) if reference.get("apiVersion") in ("v1", None, "") else None
    served = None if plural is None else world.catalog.find("", "v1", plural)
    if served is None:
        raise BadRequest(f"cannot bind token to a {reference.get('apiVersion')} {kind}: use a v1 Pod, Secret or Node")
    item = await get_item(world, served.key(account["metadata"]["namespace"], name)) if name else None
    if item is None:
        raise status_errors.object_not_found(served, name)
    found = served_tree(served, item)
    uid, given = found["metadata"].get("uid"), reference.get("uid")
    if given and given != uid:
        problem = f"the UID in the bound object reference ({given}) does not match the UID in record"
        raise status_errors.conflict(served, name, f"{problem}. The object might have been deleted and then recreated")
    if kind == "Pod" and (part(found, "spec").get("serviceAccountName") or "default") != account["metadata"]["name"]:
        name = account["metadata"]["name"]
        raise BadRequest(f'cannot bind token for serviceaccount "{name}" to a pod that runs with another one')
    return found
