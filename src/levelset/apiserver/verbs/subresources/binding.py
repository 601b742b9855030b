"""The `binding` subresource of pods: assigns a pod to a node, once, as a scheduler does."""

import functools
from typing import Any, Final

from msgspec.structs import replace

from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.metadata import format_timestamp
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import builtin_kind
from levelset.apiserver.verbs import create_and_update
from levelset.apiserver.verbs.get_and_list import get_item
from levelset.apiserver.verbs.write_admission import admit_posted
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.negotiation import read_posted
from levelset.apiserver.wire.request_paths import RequestPath
from levelset.apiserver.wire.status_errors import method_not_allowed
from levelset.errors import ApiError, BadRequest
from levelset.http import Request

__all__ = ["bind"]

_BINDING: Final = ServedResource(
    *("", "v1", "Binding", "bindings", "binding", "BindingList"),
    namespaced=True,
    storage_version="v1",
    schema=functools.partial(builtin_kind, "", "v1", "Binding"),
)


async def bind(
    state: ServerState, served: ServedResource, path: RequestPath, request: Request, warnings: list[str]
) -> Object:
    """Sets the node of a pod, with the labels and annotations of the Binding; raises Conflict if it has one.

    A handler of `ServerState.subresource_handlers`, of pods and, with the name in the body, of bindings.
    """
    if request.method != "POST" or (path.name is None and path.subresource):
        raise method_not_allowed()
    body, options = read_posted(request, path.subresource)
    version = strategy.decode_new(_BINDING, path.namespace, body.tree, options).version
    if version:
        body.tree["metadata"]["resourceVersion"] = version  # a precondition, not one of an object to be created
    strategy.warn_of_owners(body.tree["metadata"], options)
    warnings += options.warnings
    binding, name = body.tree, path.name or body.tree["metadata"].get("name", "")
    if binding["metadata"].get("name") != name:
        raise BadRequest("name in URL does not match name in Binding object")
    _check_target(map_member(binding, "target"))
    binding["metadata"]["namespace"] = path.namespace
    await admit_posted(state, served, binding, options, request, kind=_BINDING, warnings=warnings)
    _check_target(map_member(binding, "target"))  # as mutating plugins have left it
    served = state.catalog.find("", "v1", "pods") or served
    change = functools.partial(_assigned, state, served, binding)
    if options.dry_run:
        change(served_tree(served, get_item(state, served, path.namespace, name)))
    elif await create_and_update.mutate(state, served, path.namespace, name, change) is None:
        raise status_errors.not_found(served, name)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _check_target(target: Object) -> None:
    problems: list[str] = []
    if target.get("kind") not in (None, "", "Node"):
        problems.append(f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        problems.append("target.name: Required value")
    if problems:  # upstream does not say that the Binding is invalid
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise ApiError(text, code=500, reason="")


def _assigned(state: ServerState, served: ServedResource, binding: Object, pod: Object) -> Object:
    given, spec, name = binding["metadata"], map_member(pod, "spec"), pod["metadata"]["name"]
    _check_preconditions(served, given, pod)
    problem = _conflict(pod)
    if problem:
        raise status_errors.conflict(replace(served, plural="pods/binding"), name, problem)
    metadata = dict(pod["metadata"])
    for word in ("annotations", "labels"):
        if given.get(word):
            metadata[word] = {**map_member(metadata, word), **given[word]}
    status = {key: value for key, value in map_member(pod, "status").items() if key != "nominatedNodeName"}
    others = [one for one in list_member(status, "conditions") if one.get("type") != "PodScheduled"]
    now = format_timestamp(state.now())
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    assigned: dict[str, Any] = {**spec, "nodeName": binding["target"]["name"]}
    return {**pod, "metadata": metadata, "spec": assigned, "status": {**status, "conditions": [*others, scheduled]}}


def _check_preconditions(served: ServedResource, given: Object, pod: Object) -> None:
    metadata = pod["metadata"]
    for word, what in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if given.get(word) and given[word] != metadata.get(word):
            known = metadata.get(word)
            text = f"Precondition failed: {what} in precondition: {given[word]}, {what} in object meta: {known}"
            raise status_errors.failed_precondition(served, metadata.get("namespace"), metadata["name"], text)


def _conflict(pod: Object) -> str:
    """Why a pod cannot be assigned; empty if it can."""
    metadata, spec = pod["metadata"], map_member(pod, "spec")
    name = metadata["name"]
    if metadata.get("deletionTimestamp") is not None:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    return f"pod {name} has non-empty .spec.schedulingGates" if spec.get("schedulingGates") else ""
