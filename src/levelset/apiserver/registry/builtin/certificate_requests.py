"""CertificateSigningRequests: the user who made one, and the times of their conditions."""

from typing import Any

from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object

__all__ = ["prepare_part", "prepare_update", "record_user"]


def record_user(tree: Object, user: Any) -> None:
    """Records the user of the request, in place of what the client sent."""
    spec = tree["spec"] = map_member(tree, "spec")
    for name in ("username", "uid", "groups", "extra"):
        spec.pop(name, None)
    spec["username"] = user.name
    if user.uid:
        spec["uid"] = user.uid
    spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {name: list(values) for name, values in user.extra}


def prepare_update(new: Object, old: Object) -> None:
    """Keeps the spec: a request does not change."""
    new["spec"] = map_member(old, "spec")


def prepare_part(new: Object, old: Object, subresource: str, now: str) -> None:
    """Sets the missing times of conditions; approvals stay as they are in an update of the status."""
    conditions, former = (list_member(map_member(tree, "status"), "conditions") for tree in (new, old))
    if subresource == "status":
        for kind in ("Approved", "Denied"):
            _preserve(conditions, former, kind)
    for condition in conditions:
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
        same = [
            one["lastTransitionTime"]
            for one in former
            if one.get("type") == condition.get("type")
            and one.get("status") == condition.get("status")
            and one.get("lastTransitionTime")
        ]
        given = condition.get("lastTransitionTime")
        condition["lastTransitionTime"] = given or (same[0] if same else now)


def _preserve(conditions: list[Any], former: list[Any], kind: str) -> None:
    """Replaces the conditions of a type by the stored ones, unless some were added or removed."""
    indexes = [index for index, one in enumerate(conditions) if one.get("type") == kind]
    stored = [one for one in former if one.get("type") == kind]
    if len(indexes) == len(stored):
        for index, one in zip(indexes, stored, strict=True):
            conditions[index] = dict(one)
