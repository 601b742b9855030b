"""Merge patch (RFC 7396): applying one, and computing the one between two documents.

Neither argument is ever changed. A result shares the parts of the document that the patch does not touch, and shares
nothing with the patch; copy a result before editing it in place.
"""

from typing import Any

from levelset.errors import BadPatch
from levelset.objects import json_tree
from levelset.objects.json_tree import Tree
from levelset.patch.json_patch import json_equal

__all__ = ["apply_merge", "make_merge"]

Path = tuple[str, ...]


def apply_merge(document: Any, patch: Any, *, like_kubernetes: bool = False) -> Any:
    """The document with the patch merged in: maps member by member, null removes, everything else replaces.

    Every tree is a patch and fits every document; BadPatch is raised only for a patch too deep to be walked. A list
    is taken as it is, with the nulls inside. `like_kubernetes` treats it as kube-apiserver does: null members of maps
    inside the list are dropped, null items stay.
    """
    try:
        given: Tree = patch
        if isinstance(given, dict):
            return _merged(document, given, prune=like_kubernetes)
        return _taken(given, prune=like_kubernetes)
    except RecursionError as error:
        raise BadPatch("the merge patch is nested too deeply to be applied") from error


def make_merge(before: Any, after: Any) -> Any:
    """The smallest merge patch that leads from `before` to `after`, so that applying it to one gives the other.

    A merge patch cannot set a member to null. A null member of `after` that is not already null at the same place in
    `before` raises BadPatch with its field, outside of lists; a JSON patch can express it (`diff_operations`).
    The patch shares nothing with either tree.
    """
    try:
        return _made(before, after)
    except RecursionError as error:
        raise BadPatch("the documents are nested too deeply to be compared") from error


def _merged(document: Tree, patch: dict[str, Tree], *, prune: bool) -> dict[str, Tree]:
    result = document.copy() if isinstance(document, dict) else {}
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        elif isinstance(change, dict):
            result[name] = _merged(result.get(name), change, prune=prune)
        elif isinstance(change, list):
            # As kube-apiserver, which leaves a list alone that replaces a map.
            result[name] = _taken(change, prune=prune and not isinstance(result.get(name), dict))
        else:
            result[name] = change
    return result


def _taken(value: Tree, *, prune: bool) -> Tree:
    """A copy of a value of the patch that replaces something in the document."""
    return _pruned(value) if prune else json_tree.copy_tree(value)


def _pruned(value: Tree) -> Tree:
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    if isinstance(value, dict):
        return {name: _pruned(one) for name, one in value.items() if one is not None}
    return value


def _made(before: Tree, after: Tree) -> Tree:
    if not isinstance(after, dict):
        return json_tree.copy_tree(after)
    return _difference(before, after, ()) if isinstance(before, dict) else _added(after, ())


def _difference(before: dict[str, Tree], after: dict[str, Tree], path: Path) -> dict[str, Tree]:
    patch: dict[str, Tree] = {}
    for name, new in after.items():
        if name not in before:
            patch[name] = _member(new, path, name)
            continue
        old = before[name]
        if old is new:
            continue
        if isinstance(new, str):  # most leaves are strings, which need no JSON comparison
            if old != new:
                patch[name] = new
        elif isinstance(new, dict) and isinstance(old, dict):
            inner = _difference(old, new, (*path, name))
            if inner:
                patch[name] = inner
        elif not json_equal(old, new):
            patch[name] = _member(new, path, name)
    for name in before:
        if name not in after:
            patch[name] = None
    return patch


def _member(value: Tree, path: Path, name: str) -> Tree:
    """A value as the member of a patch; raises BadPatch for null, which would mean removal."""
    if value is None:
        field = json_tree.format_path((*path, name))
        raise BadPatch(f"a merge patch cannot set {field} to null: leave it out, or use a JSON patch", field=field)
    if isinstance(value, dict):
        return _added(value, (*path, name))
    return json_tree.copy_tree(value)


def _added(value: dict[str, Tree], path: Path) -> dict[str, Tree]:
    return {name: _member(one, path, name) for name, one in value.items()}
