"""The errors of the write path, with the details that Kubernetes gives and the words that people know.

Details name the plural resource in all errors but one: an invalid object is named by its Kind.
"""

from collections.abc import Sequence
from typing import Any

from levelset.apiserver.served import Served
from levelset.errors import AlreadyExists, BadRequest, Cause, Conflict, Forbidden, Invalid, NotFound

__all__ = [
    "Undecodable",
    "already_exists",
    "bad_options",
    "conflict",
    "forbidden",
    "invalid",
    "invalid_patch",
    "missing_namespace",
    "not_found",
    "stale",
    "terminating_namespace",
]


MOST_CAUSES = 500
"""How many things that are wrong are told one by one: an object of two megabytes could have fifty times its size."""


class Undecodable(BadRequest):
    """A tree that is no object of its kind: 400 for a whole object, 422 if a patch has led to it."""


def not_found(served: Served, name: str) -> NotFound:
    """404: there is no such object."""
    return NotFound(f'{served.qualified} "{name}" not found', details=_resource(served, name))


def already_exists(served: Served, name: str, *, deleting: bool = False) -> AlreadyExists:
    """409: the name is taken, perhaps by an object that is on its way out."""
    prefix = "object is being deleted: " if deleting else ""
    return AlreadyExists(f'{prefix}{served.qualified} "{name}" already exists', details=_resource(served, name))


def conflict(served: Served, name: str, problem: str) -> Conflict:
    """409: the object is not what the request takes it for."""
    text = f'Operation cannot be fulfilled on {served.qualified} "{name}": {problem}'
    return Conflict(text, details=_resource(served, name))


def stale(served: Served, name: str) -> Conflict:
    """409: the object has been written since the client read it."""
    problem = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(served, name, problem)


def forbidden(served: Served, name: str, problem: str, *, causes: Sequence[Cause] = ()) -> Forbidden:
    """403: a rule of the server, not of the schema, is against it."""
    text = f'{served.qualified} "{name}" is forbidden: {problem}'
    return Forbidden(text, details=_resource(served, name), causes=causes)


def invalid(served: Served, name: str, causes: Sequence[Cause], *, kind: str | None = None) -> Invalid:
    """422: the object breaks rules; `kind` names it otherwise than by its Kind."""
    named = kind or served.kind
    causes = causes if len(causes) <= MOST_CAUSES else [*causes[:MOST_CAUSES], _more(len(causes) - MOST_CAUSES)]
    group = f"{named}.{served.group}" if served.group else named
    details = _details(name, served.group, named)
    return Invalid(f'{group} "{name}" is invalid: {_told(causes)}', details=details, causes=causes)


def bad_options(kind: str, causes: Sequence[Cause]) -> Invalid:
    """422: the options of the request contradict themselves or are unknown."""
    details = {"group": "meta.k8s.io", "kind": kind}
    return Invalid(f'{kind}.meta.k8s.io "" is invalid: {_told(causes)}', details=details, causes=causes)


def invalid_patch(problem: str) -> Invalid:
    """422: a patch that could be applied has led to something that is no object of the kind."""
    cause = Cause("patch", "FieldValueInvalid", f"Invalid value: {problem}")
    return Invalid(f' "" is invalid: {_told([cause])}', causes=[cause])


def missing_namespace(namespace: str) -> NotFound:
    """404: the namespace that an object is to be created in does not exist."""
    return NotFound(f'namespaces "{namespace}" not found', details={"name": namespace, "kind": "namespaces"})


def terminating_namespace(served: Served, name: str, namespace: str) -> Forbidden:
    """403: nothing is created any more in a namespace that goes."""
    cause = Cause("metadata.namespace", "NamespaceTerminating", f"namespace {namespace} is being terminated")
    problem = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(served, name, problem, causes=[cause])


def _more(number: int) -> Cause:
    return Cause("", "FieldValueInvalid", f"and {number} more")


def _resource(served: Served, name: str) -> dict[str, Any]:
    return _details(name, served.group, served.plural)


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name, "group": group, "kind": kind}
    return {word: value for word, value in details.items() if value}


def _told(causes: Sequence[Cause]) -> str:
    told = [f"{one.field}: {one.message}" if one.field else one.message for one in causes]
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"
