"""Triggers for streams: the objects of a watch as requests, with the reason that a relation would give.

```python
def changed_settings() -> AsyncIterable[Request[Website]]:
    return trigger_owners(watch(client, ConfigMap).touched().changed(by.labels), Website)


Controller(Website, reconcile, source(changed_settings))
```

A relation (`owns`, `watches`) does the same from the shared cache and is the first choice; these are for streams of
your own, in `source(...)`, `Controller(for_stream=...)` and `drive`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from levelset.aio import Stream
from levelset.client.object_types import Item, View, view_of
from levelset.objects.ref import Ref, ref_to
from levelset.runtime.controller.event_handlers import refers_to_kind
from levelset.runtime.controller.request import CHANGED, Reason, Request
from levelset.runtime.watch import ObjectStream

__all__ = ["trigger_others", "trigger_owners", "trigger_self"]

K = TypeVar("K")
O = TypeVar("O")  # noqa: E741 -- the letter the type checker shows


def trigger_self(objects: ObjectStream[K]) -> Stream[Request[K]]:
    """A request for each object of a watch, with the reason `changed`."""
    return objects.items().map(_own_request)


def trigger_others(objects: ObjectStream[O], to: Callable[[O], Iterable[Ref[K]]]) -> Stream[Request[K]]:
    """A request for each ref that `to` returns for an object, with the reason `related` and that object."""
    return objects.flat_map(partial(_other_requests, to))


def trigger_owners(objects: ObjectStream[Any], owner: type[K], *, every_owner: bool = False) -> Stream[Request[K]]:
    """A request for the owner of each object, with the reason `related` and that object.

    As with `owns`, that is the controller in the owner references, or with `every_owner` each owner of this kind; it is
    matched by group and kind. Objects without such an owner trigger nothing.
    """
    view: View[K] = view_of(owner)
    return objects.items().flat_map(partial(_owner_requests, view, every_owner))


def _own_request(item: Item[K]) -> Request[K]:
    return Request(item.ref, (CHANGED,))


def _other_requests(to: Callable[[Any], Iterable[Ref[K]]], obj: Any) -> Iterator[Request[K]]:
    reasons = (Reason("related", obj.ref),)
    return (Request(ref, reasons) for ref in to(obj))


def _owner_requests(view: View[K], every_owner: bool, item: Item[Any]) -> Iterator[Request[K]]:
    namespaced = view.definition is None or view.definition.namespaced
    namespace = item.cached.namespace if namespaced else None
    for owner in item.cached.owners:
        if (owner.controller or every_owner) and refers_to_kind(owner, view.gvk):
            ref: Ref[K] = ref_to(view.gvk, view.own_class, owner.name, namespace)
            yield Request(ref, (Reason("related", item.ref),))
