"""Names of custom resources: conflicts between CRDs, and the NamesAccepted and Established conditions.

Within a group a plural, singular, short name, kind and list kind belongs to one CRD only. A CRD that requests a taken
name is not established until the name is released. All functions are pure and do not modify their arguments.
"""

from typing import Any

from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.objects.json_tree import is_list

__all__ = [
    "CrdNames",
    "accepted_names",
    "compute_status",
    "has_all_names",
    "is_established",
    "is_terminating",
    "with_condition",
]


# The name fields of a CRD: the namespace that a name must be unique in, and the reason of a conflict.
FIELDS = {
    "plural": ("resource", "PluralConflict"),
    "singular": ("resource", "SingularConflict"),
    "shortNames": ("resource", "ShortNamesConflict"),
    "kind": ("kind", "KindConflict"),
    "listKind": ("kind", "ListKindConflict"),
}


class CrdNames:
    """The CRD that holds each name: the first to claim it, until it releases it."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, str, str], str] = {}
        self._held: dict[str, list[tuple[str, str, str]]] = {}

    def claim(self, definition: Object) -> None:
        """Records the accepted names of a CRD, except those that another CRD holds."""
        holder = definition["metadata"]["name"]
        self.release(holder)
        # Plural and singular may be equal: each name once.
        names = dict.fromkeys(accepted_names(definition))
        self._held[holder] = [key for key in names if self._holders.setdefault(key, holder) == holder]

    def release(self, holder: str) -> None:
        """Releases all names of a CRD."""
        for key in self._held.pop(holder, ()):
            del self._holders[key]

    def holder(self, group: str, scope: str, name: str) -> str | None:
        """The CRD that holds a name; `scope` is "resource" or "kind"."""
        return self._holders.get((group, scope, name))

    def has_conflict(self, definition: Object) -> bool:
        """Whether another CRD holds an accepted name of this one, because both were stored at the same time."""
        own = definition["metadata"].get("name")
        return any(self._holders.get(key, own) != own for key in accepted_names(definition))


def compute_status(definition: Object, names: CrdNames, now: str) -> Object:
    """The status of a CRD, given the names of the other CRDs: conditions, accepted names and stored versions."""
    spec, status = definition["spec"], map_member(definition, "status")
    if names.has_conflict(definition):
        status = {"storedVersions": list_member(status, "storedVersions")}
        definition = {**definition, "status": status}
    accepted, conflict = _accept(definition, names)
    conditions = list_member(status, "conditions")
    if conflict is None:
        accepted_condition = ("True", "NoConflicts", "no conflicts found")
        established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        accepted_condition = ("False", *conflict)
        established = ("False", "NotAccepted", "not all names are accepted")
    conditions = with_condition(conditions, "NamesAccepted", *accepted_condition, now=now)
    if conflict is None or not is_established(definition):
        conditions = with_condition(conditions, "Established", *established, now=now)
    return {
        "conditions": conditions,
        "acceptedNames": accepted,
        "storedVersions": _stored_versions(spec, list_member(status, "storedVersions")),
    }


def has_all_names(definition: Object) -> bool:
    """Whether all names of the CRD are accepted."""
    return _is_true(definition, "NamesAccepted")


def is_established(definition: Object) -> bool:
    """Whether the CRD is established, and so served."""
    return _is_true(definition, "Established")


def is_terminating(definition: Object) -> bool:
    """Whether the CRD and its objects are being deleted."""
    return bool(definition["metadata"].get("deletionTimestamp"))


def with_condition(conditions: list[Any], kind: str, status: str, reason: str, message: str, *, now: str) -> list[Any]:
    """The conditions with one set; its lastTransitionTime changes only if its status does."""
    former = next((one for one in conditions if one.get("type") == kind), None)
    since = now if former is None or former.get("status") != status else former.get("lastTransitionTime", now)
    made = {"lastTransitionTime": since, "message": message, "reason": reason, "status": status, "type": kind}
    if former is None:
        return [*conditions, made]
    return [made if one is former else one for one in conditions]


def _is_true(definition: Object, kind: str) -> bool:
    conditions = list_member(map_member(definition, "status"), "conditions")
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


def _accept(definition: Object, names: CrdNames) -> tuple[Object, tuple[str, str] | None]:
    """The accepted names of the CRD, and the reason and message of the last conflict, if any."""
    requested, accepted = definition["spec"]["names"], map_member(map_member(definition, "status"), "acceptedNames")
    granted, conflict = dict(accepted), None
    for field, (scope, reason) in FIELDS.items():
        value = requested.get(field)
        taken = None if value == accepted.get(field) else _conflicting_name(definition, scope, value, names)
        if taken:
            conflict = (reason, f'"{taken}" is already in use')
        elif value:
            granted[field] = value
        else:
            granted.pop(field, None)
    granted.pop("categories", None)
    if requested.get("categories"):
        granted["categories"] = requested["categories"]
    return granted, conflict


def _conflicting_name(definition: Object, scope: str, value: Any, names: CrdNames) -> str | None:
    """The first of the names that another CRD holds."""
    group, own = definition["spec"].get("group") or "", definition["metadata"].get("name")
    return next((one for one in _each(value) if (names.holder(group, scope, one) or own) != own), None)


def accepted_names(definition: Object) -> list[tuple[str, str, str]]:
    """The accepted names of a CRD, each with its group and scope."""
    group, accepted = (
        definition["spec"].get("group") or "",
        map_member(map_member(definition, "status"), "acceptedNames"),
    )
    return [(group, scope, one) for field, (scope, _) in FIELDS.items() for one in _each(accepted.get(field))]


def _each(value: Any) -> list[str]:
    """The names in a field that holds one, several or none."""
    if not value:
        return []
    return value if is_list(value) else [str(value)]


def _stored_versions(spec: Object, stored: list[str]) -> list[str]:
    storage = next((one.get("name") for one in list_member(spec, "versions") if one.get("storage")), None)
    return stored if storage is None or storage in stored else [*stored, storage]
