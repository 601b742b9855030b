"""Carries unknown fields, which a class does not declare, through a typed read-modify-write.

Three trees are merged: what was decoded (`origin`), what the class made of it (`before`), and what the class encodes
now (`after`). The difference between `before` and `after` is the caller's change; everything else stays as it was
decoded. So a field that is only in `origin` stays, one that is in `before` but not in `after` is removed, and an
unchanged value keeps the exact form in which it was decoded.

List items are matched before they are merged: first equal items, then those with the same key, then by position where
the same number is left on both sides between two matches. An item without a match is new and carries nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

__all__ = ["carry"]

Members = dict[str, Any]

_write: Final = msgspec.json.Encoder().encode

# Fields that identify an item in a list, the most specific first.
_KEYS: Final = ("name", "key", "id", "uid", "type", "containerPort", "port", "mountPath", "devicePath", "ip", "path")


def carry(origin: Any, before: Any, after: Any) -> Any:
    """The tree to encode: `after`, with all of `origin` that is not in `before`. The arguments are not changed."""
    three = (origin, before, after)
    if all(isinstance(one, dict) for one in three):
        return _carry_members(origin, before, after)
    if all(isinstance(one, list) for one in three):
        return _carry_items(origin, before, after)
    return origin if _equal(before, after) else after


def _carry_members(origin: Members, before: Members, after: Members) -> Members:
    made: Members = {}
    for name, value in origin.items():
        if name not in after:
            if name not in before:
                made[name] = value
        elif name in before:
            made[name] = carry(value, before[name], after[name])
        else:
            made[name] = after[name]
    for name, value in after.items():
        made.setdefault(name, value)
    return made


def _carry_items(origin: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if _equal(before, after):
        return origin
    # A class that drops or adds items while decoding (a set, for example) leaves nothing to match by.
    if len(origin) != len(before):
        return after
    matches = _match(before, after)
    return [
        item if match is None else carry(origin[match], before[match], item)
        for item, match in zip(after, matches, strict=True)
    ]


def _match(before: list[Any], after: list[Any]) -> list[int | None]:
    """For each item of `after`, the index of the matching item of `before`, or None."""
    matches: list[int | None] = [None] * len(after)
    free = dict.fromkeys(range(len(before)))
    _match_equal(before, after, matches, free)
    _match_by_key(before, after, matches, free)
    for new, old in _gaps(len(before), matches):
        left = [index for index in old if index in free and isinstance(before[index], dict)]
        if len(left) == len(new) and _may_pair(before, after, left, new):
            for mine, theirs in zip(new, left, strict=True):
                matches[mine] = theirs
    return matches


def _match_equal(before: list[Any], after: list[Any], matches: list[int | None], free: dict[int, None]) -> None:
    same_place = min(len(before), len(after))
    for index in range(same_place):
        if _equal(before[index], after[index]):
            matches[index] = index
            del free[index]
    if len(free) == 0:
        return
    by_text: dict[bytes, list[int]] = {}
    for index in free:
        by_text.setdefault(_write(before[index]), []).append(index)
    for index, item in enumerate(after):
        if matches[index] is None and (found := by_text.get(_write(item))):
            matches[index] = found.pop(0)
            del free[matches[index]]  # type: ignore[arg-type]  # just set


def _match_by_key(before: list[Any], after: list[Any], matches: list[int | None], free: dict[int, None]) -> None:
    key = _key_of(before, after)
    if key is None:
        return
    known = {before[index][key]: index for index in free}
    for index, item in enumerate(after):
        if matches[index] is None and (found := known.get(item[key])) is not None:
            matches[index] = found
            del free[found]


def _key_of(before: list[Any], after: list[Any]) -> str | None:
    """The field that identifies every item of both lists uniquely, if there is one."""
    if not all(isinstance(item, dict) for item in (*before, *after)):
        return None
    for key in _KEYS:
        if _is_unique(key, before) and _is_unique(key, after):
            return key
    return None


def _is_unique(key: str, items: list[Members]) -> bool:
    values = [item.get(key) for item in items]
    if not all(isinstance(value, str | int) for value in values):
        return False
    return len(set(values)) == len(values)


def _may_pair(before: list[Any], after: list[Any], old: list[int], new: Sequence[int]) -> bool:
    """Whether unmatched items may be paired by position: maps that no key identifies."""
    if not old or not all(isinstance(after[index], dict) for index in new):
        return False
    return _key_of(before, after) is None


def _gaps(old_size: int, matches: list[int | None]) -> Iterator[tuple[list[int], range]]:
    """The unmatched runs of the new list, each with the part of the old list between its neighbours' matches."""
    run: list[int] = []
    start = 0
    for index, match in enumerate((*matches, old_size)):
        if match is None:
            run.append(index)
            continue
        if run:
            yield run, range(start, match)
            run = []
        start = match + 1


def _equal(before: Any, after: Any) -> bool:
    """Whether nothing changed; Python's equality takes True for 1, so equal values are compared as JSON again."""
    if type(before) is not type(after) or before != after:
        return False
    return not isinstance(before, dict | list) or _write(before) == _write(after)
