"""The names of custom resources: who may have which, and how the status of a definition tells.

Within a group a plural, a singular, a short name, a kind and a list kind belong to one definition only. Whoever asks
for a taken one has to wait: the conditions NamesAccepted and Established say so. All functions are pure and leave the
definition that they are given as it is.
"""

from typing import Any

from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object
from levelset.objects.json_tree import is_list

__all__ = ["Names", "has_all_names", "is_established", "is_terminating", "settle_status", "with_condition"]


# The fields that hold names, what they are names of, and what is said if somebody else has one.
FIELDS = {
    "plural": ("resource", "PluralConflict"),
    "singular": ("resource", "SingularConflict"),
    "shortNames": ("resource", "ShortNamesConflict"),
    "kind": ("kind", "KindConflict"),
    "listKind": ("kind", "ListKindConflict"),
}


class Names:
    """Who has which name. The first who claims a name has it until it is released."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, str, str], str] = {}
        self._held: dict[str, list[tuple[str, str, str]]] = {}

    def claim(self, definition: Object) -> None:
        """Gives a definition the names that its status says are accepted, as far as nobody else has them."""
        holder = definition["metadata"]["name"]
        self.release(holder)
        # A plural may be its own singular: each name once.
        wanted = dict.fromkeys(_claims(definition))
        self._held[holder] = [key for key in wanted if self._holders.setdefault(key, holder) == holder]

    def release(self, holder: str) -> None:
        """Frees all names of a definition."""
        for key in self._held.pop(holder, ()):
            del self._holders[key]

    def holder(self, group: str, sort: str, name: str) -> str | None:
        """The definition that has a name; `sort` is "resource" or "kind"."""
        return self._holders.get((group, sort, name))

    def are_contested(self, definition: Object) -> bool:
        """Whether somebody else has a name that this definition's status claims: both were stored at the same time."""
        own = definition["metadata"].get("name")
        return any(self._holders.get(key, own) != own for key in _claims(definition))


def settle_status(definition: Object, names: Names, now: str) -> Object:
    """The status that a definition should have beside the others of its group."""
    spec, status = definition["spec"], part(definition, "status")
    if names.are_contested(definition):
        status = {"storedVersions": items(status, "storedVersions")}
        definition = {**definition, "status": status}
    accepted, conflict = _accept(definition, names)
    conditions = items(status, "conditions")
    if conflict is None:
        found = ("True", "NoConflicts", "no conflicts found")
        established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        found = ("False", *conflict)
        established = ("False", "NotAccepted", "not all names are accepted")
    conditions = with_condition(conditions, "NamesAccepted", *found, now=now)
    if conflict is None or not is_established(definition):
        conditions = with_condition(conditions, "Established", *established, now=now)
    return {
        "conditions": conditions,
        "acceptedNames": accepted,
        "storedVersions": _stored_versions(spec, items(status, "storedVersions")),
    }


def has_all_names(definition: Object) -> bool:
    """Whether the definition has got every name it asked for."""
    return _is_true(definition, "NamesAccepted")


def is_established(definition: Object) -> bool:
    """Whether the definition is served."""
    return _is_true(definition, "Established")


def is_terminating(definition: Object) -> bool:
    """Whether the definition and its objects are being deleted."""
    return bool(definition["metadata"].get("deletionTimestamp"))


def with_condition(conditions: list[Any], kind: str, status: str, reason: str, message: str, *, now: str) -> list[Any]:
    """The conditions with one of them set; its time moves only if its status does."""
    former = next((one for one in conditions if one.get("type") == kind), None)
    since = now if former is None or former.get("status") != status else former.get("lastTransitionTime", now)
    made = {"lastTransitionTime": since, "message": message, "reason": reason, "status": status, "type": kind}
    if former is None:
        return [*conditions, made]
    return [made if one is former else one for one in conditions]


def _is_true(definition: Object, kind: str) -> bool:
    conditions = items(part(definition, "status"), "conditions")
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


def _accept(definition: Object, names: Names) -> tuple[Object, tuple[str, str] | None]:
    """The names that the definition may have, and the reason and words of the last conflict, if any."""
    wanted, accepted = definition["spec"]["names"], part(part(definition, "status"), "acceptedNames")
    granted, conflict = dict(accepted), None
    for field, (sort, reason) in FIELDS.items():
        value = wanted.get(field)
        clash = None if value == accepted.get(field) else _clash(definition, sort, value, names)
        if clash:
            conflict = (reason, f'"{clash}" is already in use')
        elif value:
            granted[field] = value
        else:
            granted.pop(field, None)
    granted.pop("categories", None)
    if wanted.get("categories"):
        granted["categories"] = wanted["categories"]
    return granted, conflict


def _clash(definition: Object, sort: str, value: Any, names: Names) -> str | None:
    """The first wanted name that somebody else has."""
    group, own = definition["spec"].get("group") or "", definition["metadata"].get("name")
    return next((one for one in _each(value) if (names.holder(group, sort, one) or own) != own), None)


def _claims(definition: Object) -> list[tuple[str, str, str]]:
    group, accepted = definition["spec"].get("group") or "", part(part(definition, "status"), "acceptedNames")
    return [(group, sort, one) for field, (sort, _) in FIELDS.items() for one in _each(accepted.get(field))]


def _each(value: Any) -> list[str]:
    """The names in a field that holds one, several or none."""
    if not value:
        return []
    return value if is_list(value) else [str(value)]


def _stored_versions(spec: Object, stored: list[str]) -> list[str]:
    storage = next((one.get("name") for one in spec["versions"] if one.get("storage")), None)
    return stored if storage is None or storage in stored else [*stored, storage]
