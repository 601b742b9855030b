"""Watch events as bytes: what a change in the store looks like to those who watch a kind with a selector in a form.

One `Encoder` serves all watchers that ask for the same, so each event is made once, however many there are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from levelset.apiserver import forms
from levelset.apiserver.forms import Form
from levelset.apiserver.objects import served_bytes, served_tree, with_version
from levelset.apiserver.selecting import Selection
from levelset.apiserver.served import Object, Served
from levelset.apiserver.statuses import status_tree
from levelset.errors import ApiError
from levelset.objects import encode_tree
from levelset.storage import Change, Item

__all__ = ["Encoder", "Topic", "error_event"]

_INITIAL_END: Final = "k8s.io/initial-events-end"
_KINDS: Final = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
_HEADS: Final = {kind: f'{{"type":"{kind}","object":'.encode() for kind in _KINDS}
"""What a line begins with, by the type of its event."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What a watcher asks for; watchers with equal topics get the same bytes.

    `floor` is a revision from the future that the watcher knows already: nothing is sent until it has passed.
    """

    served: Served
    namespace: str | None
    selection: Selection | None
    form: Form | None = None
    floor: int = 0

    @property
    def prefix(self) -> str:
        """What the keys of all objects that can be meant begin with."""
        name = None if self.selection is None else self.selection.name
        if name and (self.namespace or not self.served.namespaced):
            return self.served.key(self.namespace, name)
        return self.served.prefix_in(self.namespace)


class Encoder:
    """Turns changes into the events of one topic."""

    __slots__ = ("_floor", "_is_plain", "_now", "_object", "_selection", "_served", "_topic", "is_table")

    def __init__(self, topic: Topic, now: Callable[[], datetime]) -> None:
        self._topic = topic
        self._served = topic.served
        self._selection = topic.selection
        self._floor = topic.floor
        self._now = now
        self.is_table = topic.form is not None and topic.form.kind == forms.TABLE
        self._is_plain = topic.form is None
        self._object = served_bytes if topic.form is None else self._metadata

    def change(self, change: Change, *, headed: bool = False) -> bytes | None:
        """The event that a change is; None if nobody who watches this is concerned."""
        if change.revision <= self._floor:
            return None
        before, after = change.before, change.after
        if self._selection is not None:
            before = before if self._matches(before) else None
            after = after if self._matches(after) else None
        if after is not None:
            kind = "ADDED" if before is None else "MODIFIED"
            if self._is_plain:  # as `_event`, in one step
                return b"%b%b}\n" % (_HEADS[kind], served_bytes(self._served, after))
            return self._event(kind, after, headed=headed)
        # The last state, under the version of the change that took it away: watching can go on from there.
        return None if before is None else self._event("DELETED", before, revision=change.revision, headed=headed)

    def added(self, item: Item, *, headed: bool = False) -> bytes | None:
        """The event that tells of an object which is there already; None if it is not meant."""
        return self._event("ADDED", item, headed=headed) if self._selection is None or self._matches(item) else None

    def bookmark(self, revision: int, *, ends_initial: bool = False, headed: bool = False) -> bytes:
        """The event that says: up to this revision you have seen everything."""
        served = self._served
        metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
        if ends_initial:
            metadata["annotations"] = {_INITIAL_END: "true"}
        tree: Object = {"kind": served.kind, "apiVersion": served.api_version, "metadata": metadata}
        made = self._table(tree, headed=headed) if self.is_table else self._formed(tree)
        return _line("BOOKMARK", encode_tree(made))

    def _matches(self, item: Item | None) -> bool:
        selection = self._selection
        return item is not None and selection is not None and selection.matches(self._served, item)

    def _event(self, kind: str, item: Item, *, revision: int | None = None, headed: bool = False) -> bytes:
        if self.is_table:
            tree = served_tree(self._served, item)
            return _line(kind, encode_tree(self._table(_at(tree, revision), headed=headed)))
        if revision is None:
            return _line(kind, self._object(self._served, item))
        if item.revision < self._served.since:
            # An old object is brought up to date as its own revision demands, not as that of its deletion does.
            return _line(kind, encode_tree(self._formed(with_version(served_tree(self._served, item), revision))))
        return _line(kind, self._object(self._served, replace(item, revision=revision)))

    def _formed(self, tree: Object) -> Object:
        form = self._topic.form
        return tree if form is None else forms.to_metadata(tree, form.api_version)

    def _metadata(self, served: Served, item: Item) -> bytes:
        form = self._topic.form
        assert form is not None  # or this would not have been chosen
        found = _decode_metadata(served_bytes(served, item)).metadata
        head = f'{{"kind":"{forms.METADATA}","apiVersion":"{form.api_version}","metadata":'
        return b"%b%b}" % (head.encode(), bytes(found))

    def _table(self, tree: Object, *, headed: bool) -> Object:
        form = self._topic.form
        assert form is not None  # as above
        return forms.render_table(self._served, form, tree, now=self._now(), headed=headed)


def error_event(error: ApiError) -> bytes:
    """The last event of a watch that cannot go on."""
    return _line("ERROR", encode_tree(status_tree(error)))


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    metadata: msgspec.Raw


_decode_metadata: Final = msgspec.json.Decoder(_Envelope).decode


def _at(tree: Any, revision: int | None) -> Any:
    return tree if revision is None else with_version(tree, revision)


def _line(kind: str, data: bytes) -> bytes:
    return b"%b%b}\n" % (_HEADS[kind], data)
