"""List queries against a cache: namespace, selectors and index lookups as one value, and their evaluation.

A cache has the metadata of its objects without decoding them. So it can evaluate label selectors and the fields
`metadata.name` and `metadata.namespace`; any other field needs an index, or the API server.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from heapq import merge
from typing import Any, Final, TypeVar, cast

import msgspec

from levelset.client.object_types import View
from levelset.client.requests import Fields, Labels, read_fields, read_labels
from levelset.errors import BadSelector, ConfigError
from levelset.objects.cached_object import CachedObject, Head
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.label_selectors import LabelSelector
from levelset.runtime.cache.index import Index, by_label
from levelset.runtime.cache.object_store import Store
from levelset.runtime.cache.scope import Scope

__all__ = ["ListQuery", "Lookup", "head_filter", "make_query", "select_objects", "sort_objects"]

T = TypeVar("T")

Lookup = tuple[Index[Any], Hashable]
"""An index and the value to find."""

_SLICE: Final = 1000
"""How many objects are filtered or sorted before other tasks may run."""
_NAME: Final = "metadata.name"
_NAMESPACE: Final = "metadata.namespace"


class ListQuery(msgspec.Struct, frozen=True):
    """The objects that a list selects; several lookups must all match."""

    scope: Scope
    lookups: tuple[Lookup, ...] = ()
    limit: int | None = None


def make_query(
    view: View[Any],
    *,
    namespace: str | None = None,
    labels: Labels | None = None,
    fields: Fields | None = None,
    index: Lookup | Sequence[Lookup] = (),
    limit: int | None = None,
) -> ListQuery:
    """The query for the options of a list; a field selector on `metadata.namespace` counts as the namespace."""
    selector = read_fields(fields) or FieldSelector.everything()
    wanted = read_labels(labels) or LabelSelector.everything()
    place = namespace or selector.requires_exact(_NAMESPACE)
    scope = Scope(view.gvk, place, wanted, selector, is_metadata=view.is_metadata)
    if limit is not None and limit < 1:
        raise ConfigError(f"limit={limit} for a list of {view.gvk}: it must be at least 1; omit it to list all objects")
    return ListQuery(scope, _lookups(index), limit)


def head_filter(query: ListQuery, held: Scope) -> Callable[[Head], bool] | None:
    """A filter on the heads of the objects in scope `held` for this query; None if all of them match.

    Raises BadSelector for a field that only the API server can evaluate.
    """
    labels = LabelSelector(tuple(set(query.scope.labels.requirements) - set(held.labels.requirements)))
    fields = FieldSelector(tuple(set(query.scope.fields.requirements) - set(held.fields.requirements)))
    unknown = sorted(fields.fields - {_NAME, _NAMESPACE})
    if unknown:
        raise BadSelector(
            f"a cache of {held.gvk} cannot filter by {', '.join(unknown)}: declare an Index of it and list with "
            'index=(index, value), or read from the API server with read="live"',
            field=unknown[0],
        )
    namespace = query.scope.namespace if held.namespace is None else None
    if namespace is None and labels.is_everything and fields.is_everything:
        return None

    def matches(head: Head) -> bool:
        if namespace is not None and head.namespace != namespace:
            return False
        if not labels.is_everything and not labels.matches(head.labels):
            return False
        return fields.is_everything or fields.matches({_NAME: head.name, _NAMESPACE: head.namespace or ""})

    return matches


async def select_objects(store: Store[Any], query: ListQuery, held: Scope) -> list[CachedObject]:
    """The objects of a store that the query selects, as of the call, sorted by namespace and name.

    ConfigError if the store does not have one of the indexes.
    """
    matches = head_filter(query, held)
    found = _candidates(store, query)
    if matches is not None:
        cached: list[CachedObject] = []
        async for some in _in_slices(found):
            cached += [one for one in some if matches(one)]
        found = cached
    return await sort_objects(found, limit=query.limit)


async def sort_objects(found: list[CachedObject], *, limit: int | None = None) -> list[CachedObject]:
    """The objects sorted by namespace and name, at most `limit`; lets other tasks run if there are many."""
    if len(found) <= _SLICE:
        return sorted(found, key=_place)[:limit]
    runs: list[list[tuple[tuple[str, str], int, CachedObject]]] = []
    number = 0
    async for some in _in_slices(found):
        runs.append(sorted((_place(one), number + offset, one) for offset, one in enumerate(some)))
        number += len(some)
    ordered: list[CachedObject] = []
    for _, _, one in merge(*runs):
        ordered.append(one)
        if len(ordered) % _SLICE == 0:
            await asyncio.sleep(0)
        if len(ordered) == limit:
            break
    return ordered


def _candidates(store: Store[Any], query: ListQuery) -> list[CachedObject]:
    """A superset of the selected objects, narrowed by the indexes; a copy that later writes do not change."""
    lookups = [*query.lookups, *_by_labels(store, query)]
    if not lookups:
        return list(store.state().cached)
    (index, value), *more = lookups
    found = list(store.by(index, value).cached)
    for index, value in more:
        these = {id(one) for one in store.by(index, value).cached}
        found = [one for one in found if id(one) in these]
    return found


def _by_labels(store: Store[Any], query: ListQuery) -> Iterator[Lookup]:
    for one in query.scope.labels.requirements:
        value = query.scope.labels.requires_exact(one.key)
        index = by_label(one.key)
        if value is not None and index in store.indexes:
            yield index, value


async def _in_slices(found: list[T]) -> AsyncIterator[list[T]]:
    for start in range(0, len(found), _SLICE):
        if start:
            await asyncio.sleep(0)
        yield found[start : start + _SLICE]


def _place(cached: CachedObject) -> tuple[str, str]:
    return cached.namespace or "", cached.name


def _lookups(index: Lookup | Sequence[Lookup]) -> tuple[Lookup, ...]:
    several: Sequence[Any] = index
    is_one = len(several) == 2 and isinstance(several[0], Index)
    return (cast("Lookup", index),) if is_one else tuple(several)
