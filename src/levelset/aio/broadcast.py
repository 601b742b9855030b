"""One publisher, many subscribers: publishing never waits, and each subscriber chooses what happens if it is slow."""

from collections.abc import AsyncIterator, Callable
from enum import Enum
from functools import partial
from typing import Generic, Self, TypeVar

from levelset.aio.channel import Channel, Closed

__all__ = ["Broadcast", "Lagged", "Slow", "Subscription"]

T = TypeVar("T")


class Slow(Enum):
    """What happens to a subscriber whose buffer is full."""

    DROP_OLDEST = "drop oldest"
    """It loses the oldest item; `Subscription.missed` counts them."""

    CLOSE = "close"
    """It gets what is in its buffer, then Lagged, and its subscription is over."""

    GROW = "grow"
    """Its buffer is unbounded: for a subscriber that always reads, or a publisher that publishes few items."""


class Lagged(Exception):
    """A subscription with Slow.CLOSE was too slow; `missed` items were published and never received.

    What to do: subscribe again and read the whole state first, or use another `Slow` policy or a larger buffer.
    """

    def __init__(self, name: str, missed: int) -> None:
        super().__init__(f"a subscriber of {name} was too slow and missed {missed} items; subscribe again to continue")
        self.missed = missed


class Broadcast(Generic[T]):
    """Passes each published item to every current subscriber.

    `publish` is a plain function: no subscriber can block the publisher or another subscriber.
    """

    def __init__(self, *, name: str = "broadcast") -> None:
        self.name = name
        self._feeds: dict[_Feed[T], None] = {}
        self._last: list[T] = []
        self._closed = False

    def __len__(self) -> int:
        """The number of subscriptions."""
        return len(self._feeds)

    @property
    def is_closed(self) -> bool:
        """Whether publishing is over."""
        return self._closed

    def publish(self, item: T) -> None:
        """Puts the item into the buffer of every subscriber, without waiting. Raises Closed after `close`."""
        self._refuse_if_closed()
        self._last[:] = (item,)
        for feed in self._feeds:
            feed.offer(item)

    def subscribe(self, *, slow: Slow, capacity: int | None = None, replay_last: bool = False) -> "Subscription[T]":
        """Subscribes to the items published from now on; with `replay_last` the newest item so far comes first.

        It buffers items until it is closed: use it in an `async with`, or in a Stream that is.
        """
        self._refuse_if_closed()
        if (capacity is None) is not (slow is Slow.GROW):
            rule = "takes no capacity" if slow is Slow.GROW else "needs a capacity, such as capacity=100"
            raise ValueError(f"{self.name}: a subscription with {slow} {rule}")
        feed: _Feed[T] = _Feed(slow, capacity, self.name)
        self._feeds[feed] = None
        if replay_last and self._last:
            feed.offer(self._last[0])
        return Subscription(feed, detach=partial(self._feeds.pop, feed, None))

    def close(self) -> None:
        """Ends publishing: subscribers get the items in their buffers, then the end."""
        self._closed = True
        self._last.clear()
        for feed in self._feeds:
            feed.channel.close()
        self._feeds.clear()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Closed(f"{self.name} is closed; nothing more can be published or subscribed to")


class _Feed(Generic[T]):
    """The buffer of one subscriber."""

    __slots__ = ("behind", "channel", "dropped", "slow")

    def __init__(self, slow: Slow, capacity: int | None, name: str) -> None:
        self.slow = slow
        self.channel: Channel[T] = Channel(capacity=capacity, name=name)
        self.dropped = 0  # items dropped in front of the oldest in the channel
        self.behind = 0  # items published since the channel of a Slow.CLOSE subscription overflowed

    def offer(self, item: T) -> None:
        if self.slow is Slow.DROP_OLDEST:
            self.dropped += self.channel.push(item)
        elif self.behind:
            self.behind += 1
        elif self.slow is Slow.CLOSE and len(self.channel) == self.channel.capacity:
            # The buffer is still delivered: a subscriber that resumes where it stopped makes progress even if every
            # burst is larger than its buffer.
            self.behind = 1
            self.channel.close()
        else:
            self.channel.send_nowait(item)


class Subscription(AsyncIterator[T]):
    """One subscriber's view of a broadcast, for one reader: iterate over it, inside an `async with`.

    `missed` is how many items were dropped just before the item received last: the gap is exactly there.
    """

    __slots__ = ("_detach", "_feed", "missed")

    def __init__(self, feed: _Feed[T], *, detach: Callable[[], object]) -> None:
        self.missed = 0
        self._feed = feed
        self._detach = detach

    def __len__(self) -> int:
        """The number of buffered items."""
        return len(self._feed.channel)

    async def receive(self) -> T:
        """The next item. Raises Lagged once if this subscriber was too slow, Closed when the broadcast is over."""
        try:
            return self._received(await self._feed.channel.receive())
        except Closed:
            self._raise_if_lagged()
            raise

    def receive_nowait(self) -> T:
        """The next item, or WouldBlock if there is none yet; raises what `receive` raises."""
        try:
            return self._received(self._feed.channel.receive_nowait())
        except Closed:
            self._raise_if_lagged()
            raise

    async def __anext__(self) -> T:
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None

    def close(self) -> None:
        """Ends the subscription and empties its buffer. A waiting reader sees the end."""
        self._detach()
        self._feed.channel.abandon()
        self._feed.behind = 0

    async def aclose(self) -> None:
        """`close`, for a Stream that reads from it."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _received(self, item: T) -> T:
        self.missed, self._feed.dropped = self._feed.dropped, 0
        return item

    def _raise_if_lagged(self) -> None:
        missed = self._feed.behind
        if missed:
            self.close()
            raise Lagged(self._feed.channel.name, missed) from None
