"""What a watcher is sent before it joins the others: what is there, and what has changed since, a slice at a time.

A kind may have a hundred thousand objects, and the loop serves others besides: between two slices they have their turn.
The objects are those of one moment; what changes while they are sent comes after them, out of the history.
"""

from collections.abc import Generator
from typing import Final

from levelset.apiserver.watchevents import Encoder, Topic
from levelset.storage import NowaitReader, NowaitWatch, Page
from levelset.web import Sink

__all__ = ["Opening"]

_LARGEST_SLICE: Final = 250
_LARGEST_TABLE: Final = 100  # a row takes many times as long to make as an object, which is sent as it is stored
_ENOUGH: Final = 256 * 1024

_Events = Generator[bytes, None, None]


class Opening:
    """The events up to now for one sink: the present state, or all changes after a revision.

    Raises `Expired`, when it is made or when it sends, if changes that were not sent yet are forgotten.
    """

    __slots__ = ("_encoder", "_events", "_reader", "_size", "is_headed", "sink", "topic")

    def __init__(
        self,
        reader: NowaitReader,
        topic: Topic,
        encoder: Encoder,
        sink: Sink,
        *,
        after: int | None,
        ends_initial: bool = False,
    ) -> None:
        self.topic = topic
        self.sink = sink
        self.is_headed = False
        """Whether the columns of a table were sent; the first event carries them."""
        self._reader = reader
        self._encoder = encoder
        self._size = _LARGEST_TABLE if encoder.is_table else _LARGEST_SLICE
        if after is None:
            self._events = self._present(reader.list_nowait(topic.prefix), ends_initial=ends_initial)
        else:
            self._events = self._changes(reader.watch(topic.prefix, after=after))

    def send(self) -> bool:
        """Sends the next slice; whether that was the last, and everything up to this moment has been sent."""
        events: list[bytes] = []
        size, is_last = 0, True
        try:
            for number, event in enumerate(self._events, 1):
                events.append(event)
                size += len(event)
                if number >= self._size or size >= _ENOUGH:
                    is_last = False
                    break
        finally:
            if size:
                self.sink.write(b"".join(events))
        return is_last

    def close(self) -> None:
        """Lets go of the store."""
        self._events.close()

    def _present(self, page: Page, *, ends_initial: bool) -> _Events:
        for item in page.items:
            yield self._count(self._encoder.added(item, headed=not self.is_headed))
        if ends_initial:
            yield self._count(self._encoder.bookmark(page.revision, ends_initial=True, headed=not self.is_headed))
        # Small kinds come here in the moment of the page, at the price of an empty look.
        yield from self._changes(self._reader.watch(self.topic.prefix, after=page.revision))

    def _changes(self, past: NowaitWatch) -> _Events:
        try:
            while batch := past.batch_nowait():
                for change in batch:
                    yield self._count(self._encoder.change(change, headed=not self.is_headed))
        finally:
            past.close_nowait()

    def _count(self, event: bytes | None) -> bytes:
        """The event, or nothing for what is not meant: that took its time too."""
        self.is_headed = self.is_headed or event is not None
        return event or b""
