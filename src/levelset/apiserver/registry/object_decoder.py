"""From a decoded body to an object of its kind: type, metadata, schema, and what to say about fields nobody knows."""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.schema import Admission, field_errors
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import BadRequest, Cause

__all__ = ["Decoded", "admit", "check_place", "read_type"]

NOTHING_WRONG = Admission()


class Decoded(msgspec.Struct, frozen=True, gc=False):
    """What is left to judge of an object that could be decoded: what its schema says, and its own managedFields."""

    causes: list[Cause]
    managed: Any
    """What the client sent as managedFields; None if it sent none. It is no longer in the tree."""


def read_type(served: ServedResource, tree: Tree) -> None:
    """Makes sure that the object has the type of its endpoint; built-in kinds may leave it out."""
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if version == served.api_version and kind == served.kind:
        return
    if served.custom and not (version and kind):
        missing = "kind" if not kind else "apiVersion"
        raise Undecodable(f"the object has no {missing}: it must be {served.kind} of {served.api_version}")
    if version and version != served.api_version:
        problem = f"the API version in the data ({version}) does not match the expected API version"
        raise Undecodable(f"{problem} ({served.api_version})")
    if kind and kind != served.kind:
        if not served.custom or not isinstance(kind, str):
            raise Undecodable(f"{kind!r} is not the kind of this endpoint, {served.kind}")
        raise status_errors.invalid(
            served, _name(tree), [field_errors.invalid("kind", kind, f"must be {served.kind}")], kind=kind
        )
    tree["apiVersion"], tree["kind"] = served.api_version, served.kind


def check_place(tree: Tree, namespace: str | None, name: str | None = None) -> None:
    """Makes sure that name and namespace of the object are those of the request; raises BadRequest."""
    metadata = tree["metadata"]
    found = metadata.get("namespace")
    if found is not None and namespace is not None and found != namespace:
        problem = f"the namespace of the provided object does not match the namespace sent on the request: {found!r}"
        raise BadRequest(f"{problem} is not {namespace!r}")
    if name is not None and metadata.setdefault("name", name) != name:
        problem = f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        raise BadRequest(problem)


def admit(
    served: ServedResource, tree: Tree, options: WriteOptions, *, dropped: list[str], old: Tree | None = None
) -> Decoded:
    """Prunes, defaults and validates by the schema, and reports the fields that were dropped before and now."""
    managed = tree["metadata"].pop("managedFields", None)
    schema = served.schema()
    admission = NOTHING_WRONG if schema is None else schema.admit(tree, old)
    if dropped or admission.dropped or options.duplicates:
        _report([*dropped, *admission.dropped], options)
    if not admission.causes:
        return Decoded([], managed)
    causes = list(admission.causes)
    if not served.custom:
        wrong = admission.type_error
        if wrong is not None:
            raise Undecodable(f"the object cannot be decoded as {served.kind}: {wrong.field}: {wrong.message}")
        # The metadata of built-in kinds is part of their schemas, and judged with better words in `metachecks`.
        causes = [one for one in causes if not one.field.startswith("metadata.")]
    return Decoded(causes, managed)


def _report(unknown: Iterable[str], options: WriteOptions) -> None:
    if options.validation == "Ignore":
        return
    told = [f'unknown field "{path}"' for path in unknown]
    told += [f'duplicate field "{path}"' for path in options.duplicates]
    if options.validation == "Strict":
        raise Undecodable(f"strict decoding error: {', '.join(told)}")
    options.warnings.extend([one for one in told if one not in options.warnings])


def _name(tree: Tree) -> str:
    metadata: Any = tree.get("metadata")
    name = cast("Tree", metadata).get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
