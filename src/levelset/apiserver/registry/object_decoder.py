"""Decodes a request body as an object of its kind: type, name and namespace, schema, and unknown fields."""

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.schema import field_errors
from levelset.apiserver.schema.builtin_schemas import builtin_kind
from levelset.apiserver.schema.validation import FINE
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import BadRequest, Cause
from levelset.objects.json_tree import copy_tree

__all__ = ["Check", "DecodedObject", "apply_schema", "check_name_and_namespace", "check_type", "report_fields"]

_DEFINITIONS: Final = "apiextensions.k8s.io"
_SAME_KINDS: Final = (("", "events.k8s.io"), ("events.k8s.io", ""))
"""The groups with one kind of one name that is stored once: Events."""
_SCHEME: Final = "pkg/runtime/scheme.go:111"  # where upstream creates the table of its kinds
_ALL: Final = "*"
_MOVED: Final = "DaemonSet Deployment Ingress NetworkPolicy ReplicaSet"
_POLICIES: Final = "MutatingAdmissionPolicy ValidatingAdmissionPolicy"
_INTERNAL: Final = "__internal"
# The kinds of versions that kube-apiserver 1.36.4 can decode and does not serve; of others it says that there are none.
_FORMER_KINDS: Final[dict[str, str]] = {
    "admissionregistration.k8s.io/v1alpha1": f"{_POLICIES} {' '.join(f'{one}Binding' for one in _POLICIES.split())}",
    "admissionregistration.k8s.io/v1beta1": _ALL,
    "apiextensions.k8s.io/v1beta1": _ALL,
    "apiregistration.k8s.io/v1beta1": _ALL,
    "apps/v1beta1": "ControllerRevision Deployment StatefulSet",
    "apps/v1beta2": _ALL,
    "authentication.k8s.io/v1alpha1": "SelfSubjectReview",
    "authentication.k8s.io/v1beta1": _ALL,
    "authorization.k8s.io/v1beta1": _ALL,
    "batch/v1beta1": "CronJob",
    "certificates.k8s.io/v1beta1": _ALL,
    "coordination.k8s.io/v1beta1": _ALL,
    "discovery.k8s.io/v1beta1": _ALL,
    "events.k8s.io/v1beta1": _ALL,
    "flowcontrol.apiserver.k8s.io/v1beta1": _ALL,
    "flowcontrol.apiserver.k8s.io/v1beta2": _ALL,
    "flowcontrol.apiserver.k8s.io/v1beta3": _ALL,
    "networking.k8s.io/v1beta1": "IPAddress Ingress IngressClass ServiceCIDR",
    "node.k8s.io/v1alpha1": _ALL,
    "node.k8s.io/v1beta1": _ALL,
    "policy/v1beta1": _ALL,
    "rbac.authorization.k8s.io/v1alpha1": _ALL,
    "rbac.authorization.k8s.io/v1beta1": _ALL,
    "resource.k8s.io/v1beta1": _ALL,
    "resource.k8s.io/v1beta2": _ALL,
    "scheduling.k8s.io/v1beta1": _ALL,
    "storage.k8s.io/v1alpha1": "CSIStorageCapacity VolumeAttachment VolumeAttributesClass",
    "storage.k8s.io/v1beta1": _ALL,
}
Check = Callable[[], None]
"""Called if the schema does not accept an object as it is; may raise an error of its own."""


class DecodedObject(msgspec.Struct, frozen=True, gc=False):
    """The remaining results of decoding an object: the violations of its schema, and its managedFields."""

    causes: list[Cause]
    managed_fields: Any
    """The managedFields that the client sent, removed from the tree; None if there are none."""
    version: str = ""
    """The resourceVersion that a new object came with, which may be any text."""
    is_tracked: bool = True
    """Whether the fields of the object are tracked: it and an ignored status have the types of the schema."""


def check_type(
    served: ServedResource, tree: Tree, options: WriteOptions | None = None, *, old: Tree | None = None
) -> None:
    """Checks apiVersion and kind against the endpoint; objects of built-in kinds may leave them out.

    With `options`, an object of another version of its kind is warned of, as upstream, which decodes it first.
    """
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if version == served.api_version and kind == served.kind:
        return
    if served.custom and not (version and kind):
        missing = "kind" if not kind else "apiVersion"
        raise Undecodable(f"the object has no {missing}: it must be {served.kind} of {served.api_version}")
    if not served.custom and isinstance(kind, str) and kind not in ("", served.kind):
        raise _of_another_kind(served, str(version or served.api_version), kind)
    if not served.custom and isinstance(version, str) and _is_core(version) and version[1:] == served.api_version:
        version = served.api_version
    if version and version != served.api_version:
        if not served.custom and isinstance(version, str) and not _is_known(served, version):
            raise _of_another_kind(served, version, served.kind)
        problem = f"the API version in the data ({version}) does not match the expected API version"
        error = Undecodable(f"{problem} ({served.api_version})")
        if options is not None and isinstance(version, str) and not served.custom:
            error.is_decoded = _warn_of_other(served, version, tree, options)
        raise error
    if kind and kind != served.kind:
        if not isinstance(kind, str):
            raise Undecodable(f"{kind!r} is not the kind of this endpoint, {served.kind}")
        causes = [field_errors.invalid("kind", kind, f"must be {served.kind}")]
        # As upstream, which neither sets defaults nor validates the rest, but for rules and what lists have twice.
        schema = served.schema()
        found = [] if schema is None else schema.validate(cast("Tree", copy_tree(tree)))
        twice = [one for one in found if one.reason == "FieldValueDuplicate"]
        if served.rules.expressions is not None:
            causes += served.rules.expressions(tree, old, causes)
        causes += twice
        raise status_errors.invalid(served, _name(tree), causes, kind=kind)
    tree["apiVersion"], tree["kind"] = served.api_version, served.kind


def _is_core(version: str) -> bool:
    """Whether the version has a slash in front of it, as one of the group without a name may."""
    return version.startswith("/") and version.count("/") == 1


def _is_known(served: ServedResource, version: str) -> bool:
    """Whether upstream knows a version of the kind, or cannot even read it as one."""
    group, _, name = version.rpartition("/")
    if not name or "/" in group:
        return True
    groups = frozenset({served.group, *(other for one, other in _SAME_KINDS if one == served.group)})
    is_other = group in groups and builtin_kind(group, name, served.kind) is not None
    return is_other or _is_former_version(version, served.kind, groups)


def _is_former_version(api_version: str, kind: str, groups: frozenset[str]) -> bool:
    """Whether a kind of these groups had the version; all kinds have an internal one."""
    group, _, version = api_version.rpartition("/")
    if group == "extensions":
        return version in ("v1beta1", _INTERNAL) and kind in _MOVED.split()
    if group not in groups:
        return False
    kinds = _FORMER_KINDS.get(api_version, "")
    return version == _INTERNAL or kinds == _ALL or kind in kinds.split()


def _warn_of_other(served: ServedResource, version: str, tree: Tree, options: WriteOptions) -> bool:
    """Warns of the unknown fields of an object of another version of the kind that can be converted to this one.

    Returns whether it is one.
    """
    group, _, name = version.rpartition("/")
    schema = builtin_kind(group, name, served.kind)
    if schema is None or (group, served.group) not in {(served.group, served.group), *_SAME_KINDS}:
        return False
    copied = cast("Tree", copy_tree(tree))
    copied["metadata"] = {}
    dropped = schema.prune(copied)
    is_valid = schema.first_type_error(copied) is None
    if is_valid:
        report_fields(served, dropped, options)
    return is_valid


def _of_another_kind(served: ServedResource, version: str, kind: str) -> Undecodable:
    """400 in the words of upstream, which converts the kinds that it knows, and cannot decode the others."""
    group, _, name = version.rpartition("/")
    # Definitions have a table of kinds of their own.
    is_known = group == served.group or _DEFINITIONS not in (group, served.group)
    if not is_known or builtin_kind(group, name, kind) is None:
        shown = version[1:] if _is_core(version) else version
        problem = f'no kind "{kind}" is registered for version "{shown}" in scheme "{_SCHEME}"'
    else:
        stored = served.group if served.storage_group is None else served.storage_group
        target = stored.partition(".")[0] or "core"
        problem = f"converting ({name}.{kind}) to ({target}.{served.kind}): unknown conversion"
    return Undecodable(f'{kind} in version "{name}" cannot be handled as a {served.kind}: {problem}', problem=problem)


def check_name_and_namespace(tree: Tree, namespace: str | None, name: str | None = None) -> None:
    """Checks name, which an update must have, and namespace against the request; raises BadRequest."""
    metadata = tree["metadata"]
    found = metadata.get("namespace")
    if found and namespace is not None and found != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    if name is not None and not metadata.get("name"):
        problem = f"the name of the object ({name} based on URL) was undeterminable"
        raise BadRequest(f"{problem}: name must be provided")
    if name is not None and metadata["name"] != name:
        problem = f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        raise BadRequest(problem)


def apply_schema(
    served: ServedResource,
    tree: Tree,
    options: WriteOptions,
    *,
    dropped: list[str],
    old: Tree | None = None,
    check: Check | None = None,
) -> DecodedObject:
    """Prunes, defaults and validates by the schema, in place, and reports unknown and duplicate fields.

    `dropped` are the unknown fields that were removed before.
    """
    managed_fields = tree["metadata"].pop("managedFields", None)
    if served.custom and managed_fields == []:
        managed_fields = None  # as upstream, which writes the metadata of a custom resource before it reads them
    schema = served.schema()
    admission = FINE if schema is None else schema.admit(tree, old)
    if admission is not FINE and check is not None:
        check()
    if dropped or options.duplicates or admission.dropped:
        report_fields(served, [*dropped, *admission.dropped], options)
    if admission is FINE:
        return DecodedObject([], managed_fields)
    wrong = _undecodable(admission.causes) if served.custom else admission.type_error
    if wrong is not None and check is not None and "Invalid value: null:" in wrong.message:
        # As upstream, where what is applied is not decoded again: its nulls are found by validation.
        causes = [replace(one, reason="FieldValueInvalid") if one is wrong else one for one in admission.causes]
        return DecodedObject(causes, managed_fields)
    if wrong is not None:
        raise Undecodable(f"the object cannot be decoded as {served.kind}: {wrong.field}: {wrong.message}")
    if served.custom and not admission.causes and schema is not None and schema.first_mismatch(tree) is not None:
        return DecodedObject([], managed_fields, is_tracked=False)  # a list in place of a text
    return DecodedObject([] if served.rules.complete else list(admission.causes), managed_fields)


def _undecodable(causes: Iterable[Cause]) -> Cause | None:
    """The first cause that is found while an object is decoded: of the metadata of an embedded object."""
    return next((one for one in causes if one.reason == field_errors.UNDECODABLE), None)


def report_fields(served: ServedResource, unknown: Iterable[str], options: WriteOptions) -> None:
    """Warns of unknown and repeated fields; raises BadRequest if the request is strict."""
    if options.validation == "Ignore":
        return
    # Of YAML, the parser says in which line a key is repeated; of JSON, the path is known.
    lines = [one for one in options.duplicates if one.startswith("line ")]
    problems = [f'unknown field "{path}"' for path in unknown]
    repeated = [f'duplicate field "{path}"' for path in options.duplicates if path not in lines]
    # Upstream prunes a custom resource after it has decoded it.
    problems = [*repeated, *problems] if served.custom else [*problems, *repeated]
    if options.validation == "Strict":
        problems = ["\n  ".join(["yaml: unmarshal errors:", *lines]), *problems] if lines else problems
        raise status_errors.undecodable(served, f"strict decoding error: {', '.join(problems)}")
    options.warnings.extend([one for one in (*lines, *problems) if one not in options.warnings])


def _name(tree: Tree) -> str:
    metadata: Any = tree.get("metadata")
    name = cast("Tree", metadata).get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
