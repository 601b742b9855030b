"""Which changes of its own objects concern a controller, unless it is told otherwise: all but those of the status.

A reconciler that writes a status must not be woken by that. Generation, labels, annotations, finalizers and the
beginning of a deletion are what others change; of a kind without a generation, every change counts.
"""

from typing import Any, Final

from levelset.client.kinds import Item
from levelset.objects.kept import Head
from levelset.watching import Predicate

__all__ = ["SELF_CHANGES", "differs"]


def differs(was: Head, head: Head) -> bool:
    """Whether there is more between two versions of an object than another status; asked of each event."""
    if head.generation != was.generation:
        return True
    if head.generation is None and head.resource_version != was.resource_version:
        return True
    return (
        (head.deletion_timestamp is None) is not (was.deletion_timestamp is None)
        or head.labels_json != was.labels_json
        or head.annotations_json != was.annotations_json
        or head.finalizers_json != was.finalizers_json
    )


class _SelfChanges(Predicate):
    """Compares the JSON of the metadata as it is: what a server wrote twice in the same way is the same."""

    def trace(self, item: Item[Any], /) -> Any:
        head = item.kept
        return (
            head.resource_version if head.generation is None else head.generation,
            head.deletion_timestamp is not None,
            head.labels_json,
            head.annotations_json,
            head.finalizers_json,
        )

    def passes(self, old: Item[Any] | None, new: Item[Any] | None) -> bool:
        """The same as the traces say, without making them."""
        if old is None or new is None:
            return old is not new
        return differs(old.kept, new.kept)

    def differs(self, old: Any, new: Any, /) -> bool:
        return old is None or new is None or bool(old != new)

    def __repr__(self) -> str:
        return "SELF_CHANGES"


SELF_CHANGES: Final[Predicate] = _SelfChanges()
"""Passes a change of generation, labels, annotations, finalizers or deletion."""
