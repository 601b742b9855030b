"""The rows of discovery: what a client is told about one resource and each of its subresources."""

import base64
import hashlib
from dataclasses import dataclass

from levelset.apiserver.schemas import builtin_resources
from levelset.apiserver.served import Object, Served

__all__ = ["Part", "parts_of", "resource_rows", "shown_verbs"]

# What is said of a custom resource while its definition is being deleted.
WHILE_TERMINATING = ("delete", "deletecollection", "get", "list", "watch")
CHANGING = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Part:
    """A subresource: its name, the kind that it takes and gives, and its verbs."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


def resource_rows(served: Served) -> list[Object]:
    """The row of a resource and those of its subresources."""
    return [_row(served), *(_part_row(served, part) for part in parts_of(served))]


def shown_verbs(served: Served) -> list[str]:
    """The verbs that a client is told of, sorted."""
    return sorted(WHILE_TERMINATING if served.terminating else served.verbs)


def parts_of(served: Served) -> list[Part]:
    """The subresources of a resource, in the order of their names."""
    found: list[Part] = []
    if served.status:
        found.append(Part("status", *served.gvk, CHANGING))
    if served.scale is not None:
        found.append(Part("scale", "autoscaling", "v1", "Scale", CHANGING))
    if served.logs is not None:
        found.append(Part("log", *served.gvk, ("get",)))
    resource = None if served.custom else builtin_resources(served.group, served.version).get(served.plural)
    for name in served.subresources:
        data = None if resource is None else resource.subresources.get(name)
        if data is None:
            found.append(Part(name, *served.gvk, ("get",)))
        else:
            found.append(Part(name, data.group, data.version, data.kind, data.verbs))
    return sorted(found, key=lambda part: part.name)


def _row(served: Served) -> Object:
    row: Object = {
        "name": served.plural,
        "singularName": served.singular,
        "namespaced": served.namespaced,
        "kind": served.kind,
        "verbs": shown_verbs(served),
    }
    if served.short_names:
        row["shortNames"] = list(served.short_names)
    if served.categories:
        row["categories"] = list(served.categories)
    if "get" in served.verbs:
        row["storageVersionHash"] = _storage_hash(served)
    return row


def _part_row(served: Served, part: Part) -> Object:
    row: Object = {"name": f"{served.plural}/{part.name}", "singularName": "", "namespaced": served.namespaced}
    if (part.group, part.version) != (served.group, served.version):
        row |= {"group": part.group, "version": part.version}
    return {**row, "kind": part.kind, "verbs": list(part.verbs)}


def _storage_hash(served: Served) -> str:
    """Changes exactly if objects are stored in another version: a sign for tools that migrate storage."""
    stored = f"{served.storage_api_version}/{served.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()
