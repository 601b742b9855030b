"""The checks of metadata: names, labels, annotations, finalizers, owners, and what an update may not change."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

from levelset.apiserver.schemas import wording
from levelset.apiserver.served import Rules
from levelset.apiserver.world import Tree
from levelset.errors import Cause
from levelset.objects.names import check_label_key, check_label_value, is_label_value

__all__ = ["check_changes", "check_metadata", "check_name", "finalizer_warnings"]

MAX_ANNOTATIONS: Final = 256 * 1024
STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_OF_EVERY_OWNER: Final = ("apiVersion", "kind", "name", "uid")


def check_metadata(metadata: Tree, rules: Rules, old: Tree | None = None) -> list[Cause]:
    """Everything that is wrong with the metadata of a new object, or with what changed since the old one."""
    causes = check_name(metadata, rules.name_check) if old is None else []
    if _CHECKED.isdisjoint(metadata):
        return causes
    for word, check in _CHECKS:
        if word in metadata and (old is None or metadata[word] != old.get(word)):
            causes += check(metadata[word])
            if word == "finalizers" and rules.finalizers_need_slash:
                causes += _check_slashes(metadata[word])
    return causes


def check_name(metadata: Tree, check: Callable[[str], list[str]]) -> list[Cause]:
    """Whether the object has a name, and one that its kind allows."""
    name = metadata.get("name")
    if not name:
        return [wording.required("metadata.name", "name or generateName is required")]
    problems = check(name)
    # One is enough: a name that is too long is often too long for several rules.
    return [wording.invalid("metadata.name", name, problems[0])] if problems else []


def check_changes(metadata: Tree, old: Tree) -> list[Cause]:
    """What an update changed although nobody may."""
    causes = [
        wording.invalid(f"metadata.{word}", metadata.get(word), "field is immutable")
        for word in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(word) != old.get(word)
    ]
    if "deletionTimestamp" in old:
        added = [one for one in metadata.get("finalizers", ()) if one not in old.get("finalizers", ())]
        if added:
            problem = f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
            causes.append(wording.forbidden("metadata.finalizers", problem))
    return causes


def finalizer_warnings(metadata: Tree, old: Tree | None = None) -> list[str]:
    """What to tell about finalizers that work but may clash with somebody else's."""
    finalizers = metadata.get("finalizers")
    if not finalizers or (old is not None and finalizers == old.get("finalizers")):
        return []
    return [
        f'metadata.finalizers: "{one}": prefer a name with a domain and a path, to avoid clashes with other finalizers'
        for one in finalizers
        if "/" not in one and one not in STANDARD_FINALIZERS
    ]


def _check_labels(labels: dict[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in labels.items():
        causes += [wording.invalid("metadata.labels", key, problem) for problem in _key_problems(key)]
        if not is_label_value(value):
            causes += [wording.invalid("metadata.labels", value, problem) for problem in check_label_value(value)]
    return causes


def _check_annotations(annotations: dict[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    for key in annotations:
        causes += [wording.invalid("metadata.annotations", key, one) for one in _key_problems(key.lower())]
    size = sum([len(key.encode()) + len(value.encode()) for key, value in annotations.items()])
    if size > MAX_ANNOTATIONS:
        causes.append(wording.too_long("metadata.annotations", MAX_ANNOTATIONS))
    return causes


def _check_finalizers(finalizers: list[str]) -> list[Cause]:
    causes = [
        wording.invalid("metadata.finalizers", one, problem) for one in finalizers for problem in _key_problems(one)
    ]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        problem = "finalizers orphan and foregroundDeletion cannot be both set"
        causes.append(wording.invalid("metadata.finalizers", cast("Any", finalizers), problem))
    return causes


def _check_slashes(finalizers: list[str]) -> list[Cause]:
    problem = "name is neither a standard finalizer name nor is it fully qualified (such as 'example.com/name')"
    return [
        wording.invalid("metadata.finalizers", one, problem)
        for one in finalizers
        if "/" not in one and one not in STANDARD_FINALIZERS
    ]


def _check_owners(owners: list[Tree]) -> list[Cause]:
    causes: list[Cause] = []
    for owner in owners:
        if not all(map(owner.get, _OF_EVERY_OWNER)):
            for word in [word for word in _OF_EVERY_OWNER if not owner.get(word)]:
                field = f"metadata.ownerReferences.{word}"
                causes.append(wording.invalid(field, owner.get(word, ""), f"{word} must not be empty"))
        if owner.get("kind") == "Event" and owner.get("apiVersion") == "v1":
            problem = "v1, Kind=Event is disallowed from being an owner"
            causes.append(wording.invalid("metadata.ownerReferences", cast("Any", owner), problem))
    if len(owners) > 1 and len([owner for owner in owners if owner.get("controller") is True]) > 1:
        problem = "only one reference can have controller set to true"
        causes.append(wording.invalid("metadata.ownerReferences", cast("Any", owners), problem))
    return causes


_CHECKS: Final[tuple[tuple[str, Callable[[Any], list[Cause]]], ...]] = (
    ("labels", _check_labels),
    ("annotations", _check_annotations),
    ("finalizers", _check_finalizers),
    ("ownerReferences", _check_owners),
)
_CHECKED: Final = frozenset(word for word, _ in _CHECKS)


@lru_cache(maxsize=2048)
def _key_problems(key: str) -> tuple[str, ...]:
    return tuple(check_label_key(key))
