"""Server-side apply: one manager's wishes laid over the live object, with owners, conflicts and removals.

Laying an applied object over the live one: the merge of server-side apply, in which nothing is taken away.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from levelset.errors import ApplyConflict, BadPatch, FieldConflict
from levelset.objects.json_tree import Tree
from levelset.patch.field_paths import list_elements, show
from levelset.patch.field_sets import EMPTY, FieldSet, parse_fields
from levelset.patch.json_patch import alike
from levelset.patch.last_applied import KUBECTL, fields_last_applied, refresh_last_applied
from levelset.patch.managed_fields import (
    NEVER_TRACKED,
    Applied,
    EntryKey,
    ManagedEntry,
    Managers,
    as_object,
    entry_time,
    fit,
    give_up,
    is_plain_apply,
    managed_fields,
    parse_managed,
    record_update,
    same_object,
    with_managed,
    without_managed,
)
from levelset.patch.merge_schema import Shape
from levelset.patch.object_fields import Changes, compare, fields_of, remove_fields

__all__ = ["apply", "first_managed", "overlay"]


def overlay(live: Tree, config: Tree, shape: Shape) -> Tree:
    """The live value with everything that `config` specifies laid over it, member by member as the shape allows.

    What does not change is shared with `live`; if nothing does, the result is `live` itself. A null leaves a map or
    a list that has members alone, and replaces anything else.
    """
    if isinstance(live, dict) and isinstance(config, dict) and not shape.atomic:
        return _overlaid_map(live, config, shape)
    if isinstance(live, list) and isinstance(config, list):
        if alike(live, config):
            return live
        here = list_elements(live, shape)
        there = list_elements(config, shape)
        if here is not None and there is not None:
            return _overlaid_list((live, here), (config, there), shape.item())
    if config is None and live and _has_members(live, shape):
        return live
    return live if alike(live, config) else config


def _has_members(live: Tree, shape: Shape) -> bool:
    if isinstance(live, dict):
        return not shape.atomic
    return isinstance(live, list) and list_elements(live, shape) is not None


def _overlaid_map(live: dict[str, Tree], config: dict[str, Tree], shape: Shape) -> dict[str, Tree]:
    out = live
    for name, wanted in config.items():
        if name in live:
            found = live[name]
            # Two texts, which are most, need no call: the wanted one wins.
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
    """The live items by element; items that share one element are left to the config alone."""
    items: dict[str, Tree] = {}
    for entry, element in zip(*live, strict=True):
        items[element] = None if element in items else entry
    return items


def _order(live: list[str], config: list[str]) -> Iterator[tuple[str, int | None]]:
    """The elements of the merged list in order, with their live position if the live item is taken as it is.

    Elements of the config come in the config's order. A live item that the config does not mention stays where it
    was: after what preceded it, before the config's items that are new at this place. A live item that the config
    mentions moves to where the config has it, unless the config's next item is the next live one anyway.
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
# Of the metadata, what NEVER_TRACKED says, by the names of the members.
_UNOWNED_METADATA: Final = frozenset(element[2:] for element in NEVER_TRACKED.tree["f:metadata"] if element != ".")


def apply(
    live: Any,
    config: Any,
    *,
    manager: str,
    shape: Shape,
    now: datetime,
    api_version: str,
    force: bool = False,
    subresource: str | None = None,
    ignore: FieldSet = EMPTY,
) -> Applied:
    """The object after `manager` applied `config` to `live` (None: there is no such object yet).

    Everything in `config` becomes the manager's, shared with whoever applied the same value. What the manager
    applied before and leaves out now is removed, unless somebody else owns it too. A field that somebody else owns
    and that would change raises ApplyConflict, which names all of them; with `force` it is taken away from them.
    `ignore` are the fields that this endpoint resets: they are neither merged nor owned.

    Neither argument is changed; the result shares with them what is the same. Raises BadPatch if the config cannot
    be applied: another apiVersion, managedFields of its own, a list item without its key, two items with one key.
    """
    try:
        before = None if live is None else without_managed(live)
        wish = _checked(config, api_version)
        entry = ManagedEntry(manager, "Apply", api_version, EMPTY, entry_time(now), subresource)
        if before is None:
            return Applied(_created(wish, entry, shape=shape, ignore=ignore), changed=True)
        request = _Request(before, wish, manager, shape, entry, force, ignore)
        managed = managed_fields(live)
        mine = _fields_again(request, managed)
        if mine is not None:
            return _applied_again(live, request, mine)
        stored = parse_managed(managed)
        merged, managers = _applied(request, stored)
        if managers == stored and same_object(request.live, merged):
            return Applied(as_object(live), changed=False)
        return Applied(with_managed(merged, managers), changed=True)
    except RecursionError:
        raise BadPatch("the applied or the live object is nested too deeply") from None


def first_managed(
    config: dict[str, Any], *, manager: str, shape: Shape, time: str, api_version: str
) -> list[dict[str, Any]] | None:
    """The `managedFields` of an object that `manager` creates by applying `config`; None if there is nothing to own.

    This is what `apply` gives where nothing is live and nothing is ignored, in one pass: what nobody ever owns is left
    out beforehand. That must be scalars; the metadata is there, and has no managedFields. Raises BadPatch.
    """
    mine, named = config.copy(), config["metadata"]
    del mine["apiVersion"], mine["kind"]
    mine["metadata"] = {name: named[name] for name in named.keys() - _UNOWNED_METADATA}
    if not mine["metadata"]:
        del mine["metadata"]
    fields = fields_of(mine, shape, strict=True).tree
    held = fields.get("f:metadata")
    if held is not None and (not held or "." in held):  # a shape that does not know metadata: it would count as owned
        fields = (FieldSet(fields) - NEVER_TRACKED).tree
    if not fields:
        return None
    entry = {"manager": manager, "operation": "Apply", "apiVersion": api_version, "time": time}
    return [{**entry, "fieldsType": "FieldsV1", "fieldsV1": fields}]


class _Request(msgspec.Struct, frozen=True):
    live: dict[str, Tree]
    config: dict[str, Tree]
    manager: str
    shape: Shape
    entry: ManagedEntry
    force: bool
    ignore: FieldSet


def _checked(config: Tree, api_version: str) -> dict[str, Tree]:
    tree = without_managed(config)
    if tree.get("apiVersion") != api_version:
        raise BadPatch(f"apiVersion must be {api_version}, not {tree.get('apiVersion')!r}", field="apiVersion")
    if tree is not config and managed_fields(config) is not None:
        raise BadPatch("metadata.managedFields must be left out of an applied object", field="metadata.managedFields")
    return tree


def _created(config: dict[str, Tree], entry: ManagedEntry, *, shape: Shape, ignore: FieldSet) -> dict[str, Tree]:
    """The object that an apply makes where there is none: all that is applied, and all of it the manager's.

    Nobody else owns anything and nothing is there before, so there is nothing to compare, to merge or to take away.
    """
    wanted = fields_of(config, shape, strict=True).recursive_difference(ignore)
    made = as_object(remove_fields(config, ignore, shape))
    if entry.manager == KUBECTL:
        made = refresh_last_applied(made, config)
    mine = replace(entry, fields=wanted - NEVER_TRACKED)
    return with_managed(made, {mine.key: mine} if mine.fields else {})


def _fields_again(request: _Request, managed: Tree) -> FieldSet | None:
    """What the manager will own, if it owns just that already, by the same version, and nobody else owns anything.

    That is the usual case for what controllers make and apply again and again. None if it is not so, or not certain.
    """
    if not isinstance(managed, list) or len(managed) != 1 or request.manager == KUBECTL:
        return None
    held = managed[0]
    if not isinstance(held, dict) or not is_plain_apply(held, request.entry):
        return None
    try:
        mine = _wanted(request) - NEVER_TRACKED
        if not mine.tree or mine.tree != held["fieldsV1"]:
            return None
        parse_fields(held["fieldsV1"])  # what is not to be read is refused to its owner too
    except BadPatch:
        return None
    return mine


def _applied_again(live: Tree, request: _Request, mine: FieldSet) -> Applied:
    """The object after its only owner applied the same fields: there is no conflict, and nothing is left out."""
    config = as_object(remove_fields(request.config, request.ignore, request.shape))
    merged = as_object(overlay(request.live, config, request.shape))
    if same_object(request.live, merged):
        return Applied(as_object(live), changed=False)
    entry = replace(request.entry, fields=mine)
    return Applied(with_managed(merged, {entry.key: entry}), changed=True)


def _wanted(request: _Request) -> FieldSet:
    return fields_of(request.config, request.shape, strict=True).recursive_difference(request.ignore)


def _applied(request: _Request, stored: Managers) -> tuple[dict[str, Tree], Managers]:
    shape, live = request.shape, request.live
    managers = fit(stored, shape)
    if not managers:
        managers = _owners_before(request)
    wanted = _wanted(request)
    config = as_object(remove_fields(request.config, request.ignore, shape))
    last = managers.pop(request.entry.key, None)
    merged = as_object(overlay(live, config, shape))
    if last is not None and last.fields - wanted:
        merged = _pruned(merged, request, last.fields, _union(wanted, managers))
    changes = compare(live, merged, shape).beyond(request.ignore)
    conflicts = {} if request.force else _conflicts(request, managers, changes)
    if conflicts:
        raise _conflict_error(managers, conflicts)
    if request.manager == KUBECTL:
        merged = refresh_last_applied(merged, request.config)
    settled = dict(give_up(managers, changes))
    mine = replace(request.entry, fields=wanted - NEVER_TRACKED)
    if mine.fields:
        unchanged = last is not None and _is_same_entry(last, mine) and same_object(live, merged)
        settled[mine.key] = last if unchanged and last is not None else mine
    return merged, settled


def _is_same_entry(last: ManagedEntry, mine: ManagedEntry) -> bool:
    return last.fields == mine.fields and last.api_version == mine.api_version


def _owners_before(request: _Request) -> dict[EntryKey, ManagedEntry]:
    """The one owner of all that was there before anybody applied, so that a change to it is a conflict."""
    entry = replace(request.entry, manager=BEFORE_FIRST_APPLY, operation="Update")
    return dict(record_update({}, compare({}, request.live, request.shape).beyond(request.ignore), entry))


def _union(wanted: FieldSet, managers: Managers) -> FieldSet:
    for entry in managers.values():
        wanted = wanted | entry.fields
    return wanted


def _pruned(merged: dict[str, Tree], request: _Request, last: FieldSet, owned: FieldSet) -> dict[str, Tree]:
    """The merged object without what the manager applied last time and nobody owns now.

    Removing an item removes all of it, also what others own inside; so what goes is found in two steps: without mine,
    plus what is owned, gives what stays; of the rest, only what was mine goes.
    """
    shape = request.shape
    mine = last.with_named_fields(shape)
    everything = fields_of(merged, shape).with_named_fields(shape)
    without = fields_of(remove_fields(merged, mine, shape), shape).with_named_fields(shape)
    unowned = everything - (without | owned.with_named_fields(shape))
    kept = fields_of(remove_fields(merged, unowned, shape), shape).with_named_fields(shape)
    # An empty list that is applied is owned by nobody and yet wanted.
    wanted = compare({}, request.config, shape).changed
    return as_object(remove_fields(merged, ((everything - kept) & mine) - owned - wanted, shape))


def _conflicts(request: _Request, others: Managers, changes: Changes) -> dict[EntryKey, FieldSet]:
    found = {key: entry.fields & changes.changed for key, entry in others.items()}
    found = {key: fields for key, fields in found.items() if fields}
    if found and request.manager == KUBECTL:
        version = request.entry.api_version
        settled = fields_last_applied(request.live or {}, shape=request.shape, api_version=version)
        found = {key: fields - settled for key, fields in found.items()}
    return {key: fields for key, fields in sorted(found.items()) if fields}


def _conflict_error(managers: Managers, conflicts: Mapping[EntryKey, FieldSet]) -> ApplyConflict:
    """The error with one conflict for each field and owner, worded as Kubernetes words it."""
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
        if entry.time:
            quoted += f" at {entry.time}"
    return quoted
