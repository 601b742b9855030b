"""Which objects a list means: namespace, labels, fields and indexes as one value, and the objects that it fits.

A cache knows the metadata of its objects without decoding them. So it can tell labels, `metadata.name` and
`metadata.namespace`; any other field needs an index, or the server.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from heapq import merge
from typing import Any, Final, TypeVar, cast

import msgspec

from levelset.client.object_types import View
from levelset.client.requests import Fields, Labels, read_fields, read_labels
from levelset.errors import BadSelector, ConfigError
from levelset.objects.cached_object import Head, Kept
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.label_selectors import LabelSelector
from levelset.runtime.cache.index import Index, by_label
from levelset.runtime.cache.scope import Scope
from levelset.runtime.cache.store import Store

__all__ = ["Lookup", "Query", "make_query", "match", "select", "sort"]

T = TypeVar("T")

Lookup = tuple[Index[Any], Hashable]
"""An index and the value to look for."""

_SLICE: Final = 1000
"""How many objects are looked at before others may run."""
_NAME: Final = "metadata.name"
_NAMESPACE: Final = "metadata.namespace"


class Query(msgspec.Struct, frozen=True):
    """What a list asks for; several lookups must all fit."""

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
) -> Query:
    """The query for the options of a list; a field that names the namespace is as good as naming it."""
    selector = read_fields(fields) or FieldSelector.everything()
    wanted = read_labels(labels) or LabelSelector.everything()
    place = namespace or selector.requires_exact(_NAMESPACE)
    scope = Scope(view.gvk, place, wanted, selector, is_metadata=view.is_metadata)
    if limit is not None and limit < 1:
        raise ConfigError(f"a list of {view.gvk} with limit={limit} is empty; give at least 1, or leave it out")
    return Query(scope, _lookups(index), limit)


def match(query: Query, held: Scope) -> Callable[[Head], bool] | None:
    """Says of a head whether its object is meant, given that it is in `held`; None if all of those are.

    Raises BadSelector for a field that only the server can tell.
    """
    labels = LabelSelector(tuple(set(query.scope.labels.requirements) - set(held.labels.requirements)))
    fields = FieldSelector(tuple(set(query.scope.fields.requirements) - set(held.fields.requirements)))
    unknown = sorted(fields.fields - {_NAME, _NAMESPACE})
    if unknown:
        raise BadSelector(
            f"a cache of {held.gvk} cannot tell {', '.join(unknown)}: make an Index of it and list with "
            'index=(index, value), or ask the server with read="live"',
            field=unknown[0],
        )
    namespace = query.scope.namespace if held.namespace is None else None
    if namespace is None and labels.is_everything and fields.is_everything:
        return None

    def is_meant(head: Head) -> bool:
        if namespace is not None and head.namespace != namespace:
            return False
        if not labels.is_everything and not labels.matches(head.labels):
            return False
        return fields.is_everything or fields.matches({_NAME: head.name, _NAMESPACE: head.namespace or ""})

    return is_meant


async def select(store: Store[Any], query: Query, held: Scope) -> list[Kept]:
    """The objects of a store that are meant, as they are at the moment of the call, by namespace and name.

    ConfigError if the store does not have one of the indexes.
    """
    is_meant = match(query, held)
    found = _candidates(store, query)
    if is_meant is not None:
        kept: list[Kept] = []
        async for some in _in_slices(found):
            kept += [one for one in some if is_meant(one)]
        found = kept
    return await sort(found, limit=query.limit)


async def sort(found: list[Kept], *, limit: int | None = None) -> list[Kept]:
    """The objects by namespace and name, no more than `limit`; others may run while there are many."""
    if len(found) <= _SLICE:
        return sorted(found, key=_place)[:limit]
    rows: list[list[tuple[tuple[str, str], int, Kept]]] = []
    number = 0
    async for some in _in_slices(found):
        rows.append(sorted((_place(one), number + offset, one) for offset, one in enumerate(some)))
        number += len(some)
    ordered: list[Kept] = []
    for _, _, one in merge(*rows):
        ordered.append(one)
        if len(ordered) % _SLICE == 0:
            await asyncio.sleep(0)
        if len(ordered) == limit:
            break
    return ordered


def _candidates(store: Store[Any], query: Query) -> list[Kept]:
    """What the indexes leave to look at; all that is asked for is in here, and it does not change any more."""
    lookups = [*query.lookups, *_by_labels(store, query)]
    if not lookups:
        return list(store.state().kept)
    (index, value), *more = lookups
    found = list(store.by(index, value).kept)
    for index, value in more:
        these = {id(one) for one in store.by(index, value).kept}
        found = [one for one in found if id(one) in these]
    return found


def _by_labels(store: Store[Any], query: Query) -> Iterator[Lookup]:
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


def _place(kept: Kept) -> tuple[str, str]:
    return kept.namespace or "", kept.name


def _lookups(index: Lookup | Sequence[Lookup]) -> tuple[Lookup, ...]:
    several: Sequence[Any] = index
    is_one = len(several) == 2 and isinstance(several[0], Index)
    return (cast("Lookup", index),) if is_one else tuple(several)
