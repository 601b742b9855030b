"""Server-side apply: merges an applied configuration into the live object, with ownership, conflicts and removals.

`apply` does the whole operation on JSON trees; `create_applied` is its part for an object that does not exist yet, and
`overlay` its merge, which never removes anything. The semantics are those of structured-merge-diff. Ownership is
recorded in `metadata.managedFields` (`managed_fields.py`).
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from levelset.errors import ApplyConflict, BadPatch, FieldConflict
from levelset.objects.json_tree import Tree
from levelset.patch.field_paths import list_elements, show
from levelset.patch.field_sets import EMPTY, Changes, FieldSet, compare, fields_of, parse_fields, remove_fields
from levelset.patch.json_patch import json_equal
from levelset.patch.last_applied import KUBECTL, fields_last_applied, refresh_last_applied
from levelset.patch.managed_fields import (
    NEVER_TRACKED,
    Applied,
    EntryKey,
    ManagedEntry,
    Managers,
    as_object,
    conflict_order,
    entry_time,
    fit_to_schema,
    is_plain_apply,
    managed_fields,
    parse_managed,
    record_update,
    remove_lost_fields,
    same_object,
    trackable,
    with_managed,
    without_managed,
)
from levelset.patch.merge_schema import Shape

__all__ = ["apply", "create_applied", "overlay"]


def overlay(live: Tree, config: Tree, shape: Shape) -> Tree:
    """The live value with everything that `config` specifies merged into it, member by member as the shape allows.

    What does not change is shared with `live`; if nothing does, the result is `live` itself. A null does not change a
    map or list that has members, and replaces anything else.
    """
    if isinstance(live, dict) and isinstance(config, dict) and not shape.atomic:
        return _overlaid_map(live, config, shape)
    if isinstance(live, list) and isinstance(config, list):
        if json_equal(live, config):
            return live
        here = list_elements(live, shape)
        there = list_elements(config, shape)
        if here is not None and there is not None:
            return _overlaid_list((live, here), (config, there), shape.item())
    if config is None and live and _has_members(live, shape):
        return live
    return live if json_equal(live, config) else config


def _has_members(live: Tree, shape: Shape) -> bool:
    if isinstance(live, dict):
        return not shape.atomic
    return isinstance(live, list) and list_elements(live, shape) is not None


def _overlaid_map(live: dict[str, Tree], config: dict[str, Tree], shape: Shape) -> dict[str, Tree]:
    out = live
    for name, wanted in config.items():
        if name in live:
            found = live[name]
            # Fast path without a call: most values are two strings, and the applied one wins.
            is_text = found.__class__ is str and wanted.__class__ is str
            if is_text and found == wanted:
                continue
            merged = wanted if is_text else overlay(found, wanted, shape.member(name))
            if merged is found:
                continue
        else:
            merged = wanted
        out = dict(live) if out is live else out
        out[name] = merged
    return out


_Items = tuple[list[Tree], list[str]]


def _overlaid_list(live: _Items, config: _Items, shape: Shape) -> list[Tree]:
    here = _unique(live)
    there = dict(zip(config[1], config[0], strict=True))
    out: list[Tree] = []
    for element, position in _order(live[1], config[1]):
        if position is not None:
            out.append(live[0][position])
        elif element in here:
            out.append(overlay(here[element], there[element], shape))
        else:
            out.append(there[element])
    same = len(out) == len(live[0]) and all(one is other for one, other in zip(out, live[0], strict=True))
    return live[0] if same else out


def _unique(live: _Items) -> dict[str, Tree]:
    """The live items by element; None for items that share one element, which the config replaces."""
    items: dict[str, Tree] = {}
    for entry, element in zip(*live, strict=True):
        items[element] = None if element in items else entry
    return items


def _order(live: list[str], config: list[str]) -> Iterator[tuple[str, int | None]]:
    """The elements of the merged list in order, with their live position if the live item is taken as it is.

    Elements of the config keep the config's order. A live item that the config does not contain stays where it was:
    after the item that preceded it, before the config's items that are new at this position. A live item that the
    config contains moves to its position there, unless the config's next item is the next live one anyway.
    """
    mentioned, known = set(config), set(live)
    # The config's elements that are live too, last first: the one at the end is the next to be placed.
    shared = [element for element in reversed(config) if element in known]
    placed: set[str] = set()
    here = there = 0
    while here < len(live) or there < len(config):
        if here < len(live):
            element = live[here]
            if element not in mentioned:
                yield element, here
                here += 1
                continue
            if there < len(config) and element != config[there] and shared and element != shared[-1]:
                here += 1
                continue
            if element in placed:
                here += 1
                if there == len(config):
                    continue
        if there < len(config):
            wanted = config[there]
            yield wanted, None
            placed.add(wanted)
            there += 1
            if shared and shared[-1] == wanted:
                shared.pop()
            if here < len(live) and live[here] == wanted:
                here += 1


BEFORE_FIRST_APPLY: Final = "before-first-apply"


def apply(
    live: Any,
    config: Any,
    *,
    manager: str,
    shape: Shape,
    now: datetime | str,
    api_version: str,
    force: bool = False,
    subresource: str | None = None,
    ignore: FieldSet = EMPTY,
) -> Applied:
    """The object after `manager` applied `config` to `live` (None: the object does not exist yet).

    The manager owns everything in `config`, together with other managers that applied the same value. Fields that the
    manager applied before and omits now are removed, unless another manager owns them too. If a field changes that
    another manager owns, raises ApplyConflict with all such fields; with `force`, the other managers lose them.
    `ignore` are the fields that this endpoint resets: they are neither merged nor owned.

    Neither argument is changed; the result shares unchanged parts. Raises BadPatch if the config cannot
    be applied: another apiVersion, managedFields of its own, a list item without its key, two items with one key.
    """
    time = entry_time(now)
    if live is None:
        known: dict[str, Any] = {"api_version": api_version, "subresource": subresource, "ignore": ignore}
        return Applied(create_applied(config, manager=manager, shape=shape, time=time, **known), changed=True)
    try:
        before = without_managed(live)
        applied = _check_config(config, api_version)
        entry = ManagedEntry(manager, "Apply", api_version, EMPTY, time, subresource)
        request = _ApplyRequest(before, applied, manager, shape, entry, force, ignore)
        managed = managed_fields(live)
        mine = _fields_if_reapplied(request, managed)
        if mine is not None:
            return _reapplied(live, request, mine)
        stored = parse_managed(managed)
        merged, managers = _applied(request, stored)
        if managers == stored and same_object(request.live, merged):
            return Applied(as_object(live), changed=False)
        return Applied(with_managed(merged, managers), changed=True)
    except RecursionError:
        raise BadPatch("the applied or the live object is nested too deeply") from None


def create_applied(
    config: Any,
    *,
    manager: str,
    shape: Shape,
    time: str,
    api_version: str,
    subresource: str | None = None,
    ignore: FieldSet = EMPTY,
) -> dict[str, Any]:
    """The object that an apply creates: everything in `config`, owned by `manager`; `time` is that of its entry.

    There is no live object and no other owner, so nothing is compared, merged or removed. Raises BadPatch as `apply`.
    """
    try:
        applied = _check_config(config, api_version)
        owned = _owned_fields(applied, shape, ignore)
        made = as_object(remove_fields(applied, ignore, shape)) if ignore.tree else applied
        if manager == KUBECTL:
            made = refresh_last_applied(made, applied)
        if not owned.tree:
            return made
        entry = ManagedEntry(manager, "Apply", api_version, owned, time, subresource)
        metadata: Any = made.get("metadata") or {}
        return {**made, "metadata": {**metadata, "managedFields": [entry.print()]}}
    except RecursionError:
        raise BadPatch("the applied object is nested too deeply") from None


class _ApplyRequest(msgspec.Struct, frozen=True):
    live: dict[str, Tree]
    config: dict[str, Tree]
    manager: str
    shape: Shape
    entry: ManagedEntry
    force: bool
    ignore: FieldSet


def _check_config(config: Tree, api_version: str) -> dict[str, Tree]:
    tree = config if isinstance(config, dict) else as_object(config)
    metadata = tree.get("metadata")
    is_plain = isinstance(metadata, dict) and "managedFields" not in metadata
    if not is_plain:
        tree = without_managed(tree)
    version = tree.get("apiVersion")
    if version != api_version:
        raise BadPatch(f"apiVersion must be {api_version}, not {version!r}", field="apiVersion")
    if not is_plain and managed_fields(config) is not None:
        raise BadPatch("metadata.managedFields must be left out of an applied object", field="metadata.managedFields")
    return tree


def _owned_fields(config: dict[str, Tree], shape: Shape, ignore: FieldSet) -> FieldSet:
    """The fields that a manager owns if it applies `config`: all that it specifies but `ignore` and NEVER_TRACKED.

    What is never tracked is left out beforehand, which is faster than removing it from the set.
    """
    fields = fields_of(trackable(config), shape, strict=True)
    if ignore.tree:
        fields = fields.recursive_difference(ignore)
    held = fields.tree.get("f:metadata")
    if held is None or (held and "." not in held):
        return fields
    return fields - NEVER_TRACKED  # a shape without `metadata` makes it owned as a whole


def _fields_if_reapplied(request: _ApplyRequest, managed: Tree) -> FieldSet | None:
    """The applied fields if the manager already owns exactly these, at the same version, and is the only owner.

    The usual case for an object that one controller applies repeatedly. None otherwise, or if it is not certain.
    """
    if not isinstance(managed, list) or len(managed) != 1 or request.manager == KUBECTL:
        return None
    held = managed[0]
    if not isinstance(held, dict) or not is_plain_apply(held, request.entry):
        return None
    try:
        mine = _owned_fields(request.config, request.shape, request.ignore)
        if not mine.tree or mine.tree != held["fieldsV1"]:
            return None
        parse_fields(held["fieldsV1"])  # unreadable fields take the slow path, which reports the error
    except BadPatch:
        return None
    return mine


def _reapplied(live: Tree, request: _ApplyRequest, mine: FieldSet) -> Applied:
    """The object after its only owner applied the same fields again: no conflicts and no removals are possible."""
    config = as_object(remove_fields(request.config, request.ignore, request.shape))
    merged = as_object(overlay(request.live, config, request.shape))
    if same_object(request.live, merged):
        return Applied(as_object(live), changed=False)
    entry = replace(request.entry, fields=mine)
    return Applied(with_managed(merged, {entry.key: entry}), changed=True)


def _applied_fields(request: _ApplyRequest) -> FieldSet:
    return fields_of(request.config, request.shape, strict=True).recursive_difference(request.ignore)


def _applied(request: _ApplyRequest, stored: Managers) -> tuple[dict[str, Tree], Managers]:
    shape, live = request.shape, request.live
    managers = fit_to_schema(stored, shape)
    if not managers:
        managers = _owner_before_first_apply(request)
    wanted = _applied_fields(request)
    config = as_object(remove_fields(request.config, request.ignore, shape))
    last = managers.pop(request.entry.key, None)
    merged = as_object(overlay(live, config, shape))
    if last is not None and last.fields - wanted:
        pruned = _pruned(merged, request, last.fields, _union(wanted, managers))
        # A null replaces a map only if it is empty, which this one may be only now. Without this step, the same apply
        # would change the object a second time.
        merged = as_object(overlay(pruned, config, shape))
    changes = compare(live, merged, shape).beyond(request.ignore)
    conflicts = {} if request.force else _conflicts(request, managers, changes)
    if conflicts:
        raise _conflict_error(managers, conflicts)
    if request.manager == KUBECTL:
        merged = refresh_last_applied(merged, request.config)
    settled = dict(remove_lost_fields(managers, changes))
    mine = replace(request.entry, fields=wanted - NEVER_TRACKED)
    if mine.fields:
        # As upstream: only a change of the object is one of its time, even of a field that the endpoint resets.
        if same_object(live, merged) and _has_version(live, config) and _is_without_reset(request, config):
            mine = replace(mine, time=None if last is None else last.time)
        settled[mine.key] = mine
    return merged, settled


def _has_version(live: dict[str, Tree], config: dict[str, Tree]) -> bool:
    """Whether the config has the resourceVersion of the live object, or none: another one counts as a change."""
    given, found = (as_object(one.get("metadata") or {}) for one in (config, live))
    return "resourceVersion" not in given or given["resourceVersion"] == found.get("resourceVersion")


def _is_without_reset(request: _ApplyRequest, config: dict[str, Tree]) -> bool:
    """Whether what the endpoint resets would not change the live object."""
    if not request.ignore.tree or json_equal(config, request.config):
        return True
    return same_object(request.live, as_object(overlay(request.live, request.config, request.shape)))


def _owner_before_first_apply(request: _ApplyRequest) -> dict[EntryKey, ManagedEntry]:
    """One owner of all fields of an object that was never applied, so that changing them is a conflict."""
    entry = replace(request.entry, manager=BEFORE_FIRST_APPLY, operation="Update")
    changes = compare({}, request.live, request.shape).beyond(request.ignore)
    return dict(record_update({}, changes, entry, request.shape))


def _union(wanted: FieldSet, managers: Managers) -> FieldSet:
    for entry in managers.values():
        wanted = wanted | entry.fields
    return wanted


def _pruned(merged: dict[str, Tree], request: _ApplyRequest, last: FieldSet, owned: FieldSet) -> dict[str, Tree]:
    """The merged object without the fields that the manager applied last time and that have no owner now.

    Removing an item removes everything in it, also what other managers own inside. So there are two steps: the object
    without this manager's fields, plus all owned fields, is what stays; of the rest, only this manager's are removed.
    """
    shape = request.shape
    mine = last.with_named_fields(shape)
    everything = fields_of(merged, shape).with_named_fields(shape)
    without = fields_of(remove_fields(merged, mine, shape), shape).with_named_fields(shape)
    unowned = everything - (without | owned.with_named_fields(shape))
    remaining = fields_of(remove_fields(merged, unowned, shape), shape).with_named_fields(shape)
    # An applied empty list has no owner, but must not be removed.
    wanted = compare({}, request.config, shape).changed
    return as_object(remove_fields(merged, ((everything - remaining) & mine) - owned - wanted, shape))


def _conflicts(request: _ApplyRequest, others: Managers, changes: Changes) -> dict[EntryKey, FieldSet]:
    found = {key: entry.fields & changes.changed for key, entry in others.items()}
    found = {key: fields for key, fields in found.items() if fields}
    if found and request.manager == KUBECTL:
        version = request.entry.api_version
        settled = fields_last_applied(request.live or {}, shape=request.shape, api_version=version)
        found = {key: fields - settled for key, fields in found.items()}
    return {key: found[key] for key in sorted(found, key=lambda key: conflict_order(others[key])) if found[key]}


def _conflict_error(managers: Managers, conflicts: Mapping[EntryKey, FieldSet]) -> ApplyConflict:
    """The error with one conflict for each field and owner, with the messages of kube-apiserver."""
    found: list[FieldConflict] = []
    groups: list[str] = []
    for key, fields in conflicts.items():
        owner = _named_owner(managers[key])
        shown = [show(path) for path in fields]
        found += [FieldConflict(managers[key].manager, path, f"conflict with {owner}") for path in shown]
        groups.append("\n".join([f"conflicts with {owner}:", *[f"- {path}" for path in shown]]))
    if len(found) == 1:
        return ApplyConflict(f"Apply failed with 1 conflict: {found[0].message}: {found[0].field}", found)
    return ApplyConflict(f"Apply failed with {len(found)} conflicts: " + "\n".join(groups), found)


def _named_owner(entry: ManagedEntry) -> str:
    quoted = f'"{entry.manager}"'
    if entry.subresource:
        quoted += f' with subresource "{entry.subresource}"'
    if entry.operation == "Update":
        quoted += f" using {entry.api_version}"
    return quoted
