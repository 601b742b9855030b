"""Random operations on the work queue, compared with a simple model on a list.

Same order, nothing lost, nothing twice: the model gets the same operations and must return the same results.
"""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.runtime.queue import WorkQueue

Step = tuple[str, int, float, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("add", "add", "batch", "some", "some", "later", "later"),
                *("take", "take", "done", "done", "cancel", "wait", "back", "drop"),
            ]
        ),
        st.integers(0, 5),
        st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 7.0]),
        st.integers(-1, 2),
    ),
    max_size=80,
)


@dataclass
class ModelRequest:
    key: int
    at: float
    priority: int
    number: int
    """The sequence number that orders ready requests of one priority."""
    reasons: list[int]
    is_timer: bool = False
    """Whether it has only the reasons of requests for a later time."""
    is_ready: bool = False


@dataclass
class Model:
    """The rules of the queue, implemented without regard to speed."""

    debounce: float
    age: float
    waiting: list[ModelRequest] = field(default_factory=list)
    held: dict[int, ModelRequest] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    numbers: int = 0
    gave_way: bool = False

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def ripen(self, now: float) -> None:
        for request in sorted(self.waiting, key=lambda one: (one.at, one.number)):
            if not request.is_ready and request.at <= now:
                request.is_ready, request.number = True, self.number()

    def add(self, key: int, at: float, now: float, priority: int, reason: int) -> bool:
        self.ripen(now)
        is_timer = at > now
        at = at if is_timer else now + self.debounce
        found = [one for one in (*self.waiting, *self.held.values()) if one.key == key]
        if not found:
            request = ModelRequest(key, at, priority, self.number(), [reason], is_timer)
            if key in self.running:
                self.held[key] = request
            else:
                self.waiting.append(request)
                self.ripen(now)
            return True
        (request,) = found
        is_later = is_timer and (request.is_ready or at > request.at)
        if request.is_timer and not request.is_ready and at < request.at:
            request.reasons, request.is_timer = [], is_timer
        request.is_timer = request.is_timer and (is_timer or is_later)
        if at < request.at and not request.is_ready:
            request.at, request.number = at, self.number()
        if priority > request.priority:
            request.priority = priority
            if request.is_ready:
                request.number = self.number()
        if not is_later and reason not in request.reasons and len(request.reasons) < 3:
            request.reasons.append(reason)
        if key not in self.running:
            self.ripen(now)
        return False

    def take(self, now: float) -> ModelRequest | None:
        self.ripen(now)
        ready = [one for one in self.waiting if one.is_ready]
        if not ready:
            return None
        highest = max(one.priority for one in ready)
        best = min((one for one in ready if one.priority == highest), key=lambda one: one.number)
        # The first request of each lower priority may have aged.
        heads = [
            min((one for one in ready if one.priority == level), key=lambda one: one.number)
            for level in sorted({one.priority for one in ready if one.priority < highest}, reverse=True)
        ]
        aged = [one for one in heads if one.at + self.age <= now]
        self.gave_way = bool(aged) and not self.gave_way
        chosen = min(aged, key=lambda one: one.at) if self.gave_way else best
        self.waiting.remove(chosen)
        self.running.add(chosen.key)
        return chosen

    def done(self, key: int, now: float) -> None:
        self.running.remove(key)
        if key in self.held:
            self.ripen(now)
            request = self.held.pop(key)
            request.at, request.number = max(request.at, now), self.number()
            self.waiting.append(request)
            self.ripen(now)

    def cancel(self, key: int) -> bool:
        before = len(self.waiting) + len(self.held)
        self.waiting = [one for one in self.waiting if one.key != key]
        self.held.pop(key, None)
        return len(self.waiting) + len(self.held) < before

    def drop_delayed(self) -> set[int]:
        dropped = {one.key for one in self.waiting if not one.is_ready}
        self.waiting = [one for one in self.waiting if one.is_ready]
        return dropped

    def next_at(self, now: float) -> float | None:
        self.ripen(now)
        if any(one.is_ready for one in self.waiting):
            return now
        return min((one.at for one in self.waiting), default=None)


class Both:
    """The work queue and the model side by side, with the same time."""

    def __init__(self, debounce: float) -> None:
        self.queue: WorkQueue[int, int] = WorkQueue(debounce=debounce, age=4.0, max_reasons=3)
        self.model = Model(debounce, age=4.0)
        self.now = 0.0

    def step(self, kind: str, key: int, seconds: float, priority: int) -> None:
        match kind:
            case "add" | "later":
                at = self.now + (seconds if kind == "later" else 0.0)
                new = self.queue.add(key, at=at, now=self.now, priority=priority, reason=priority)
                assert new == self.model.add(key, at, self.now, priority, priority)
            case "batch" | "some":
                keys = [key, (key + 2) % 6, *([key] if kind == "batch" else []), (key + 3) % 6]
                came = self.queue.add_all(keys, at=self.now, now=self.now, priority=priority, reason=priority)
                assert came == sum([self.model.add(one, self.now, self.now, priority, priority) for one in keys])
            case "take":
                self.take()
            case "done" if key in self.model.running:
                self.queue.done(key, self.now)
                self.model.done(key, self.now)
            case "cancel":
                assert self.queue.cancel(key) == self.model.cancel(key)
            case "wait" | "back":
                self.now += seconds if kind == "wait" else -seconds / 2
            case "drop" if key == 0:
                assert set(self.queue.drop_delayed()) == self.model.drop_delayed()
            case _:
                pass
        self.compare()

    def take(self) -> bool:
        due = self.queue.take(self.now)
        request = self.model.take(self.now)
        assert (due is None) == (request is None)
        if due is None or request is None:
            return False
        assert (due.key, due.priority, due.since) == (request.key, request.priority, request.at)
        assert list(due.reasons) == request.reasons
        return True

    def compare(self) -> None:
        queue, model = self.queue, self.model
        assert queue.next_at(self.now) == model.next_at(self.now)
        ready = sum(one.is_ready for one in model.waiting)
        assert (queue.ready, queue.delayed) == (ready, len(model.waiting) - ready)
        assert (queue.held, queue.running) == (len(model.held), len(model.running))
        assert len(queue) == len(queue.keys()) == len(model.waiting) + len(model.held)
        assert sum(queue.depths().values()) == ready
        assert set(queue.running_keys()) == model.running
        assert not queue._only or [one.location is queue._only for one in queue._only] == [True] * ready

    def finish(self) -> None:
        """Takes what is left: both must agree to the last key, and then hold nothing."""
        for _ in range(20):
            while self.take():
                pass
            for key in sorted(self.model.running):
                self.queue.done(key, self.now)
                self.model.done(key, self.now)
            self.now += 10.0
            self.compare()
        assert (len(self.queue), self.queue._entries) == (0, {})


@settings(max_examples=400)
@given(STEPS, st.sampled_from([0.0, 0.0, 1.5]))
def test_the_work_queue_agrees_with_the_model(steps: list[Step], debounce: float) -> None:
    both = Both(debounce)
    for step in steps:
        both.step(*step)
    both.finish()
