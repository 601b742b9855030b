"""The world outside of the API: its calls are steps, and its public state is compared at the end."""

from dataclasses import dataclass, replace
from typing import Any

from levelset import Context, Controller, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, Plan
from levelset.testing.explore.outside_world import GeneratedIds, describe_outside
from levelset.testing.explore.search import Explorer
from tests.testing.explore.zoo.volume_timed_out import broken, fixed


class Letter(Resource[Spec, Status], api="outside.dev/v1"):
    """A letter, which is posted once."""


class Post:
    """A post office with a plain method, and a log."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.log: list[str] = []

    def send(self, name: str) -> None:
        self.log.append(name)
        self.sent.add(name)


def posting(post: Post) -> list[Controller[Any]]:
    assert isinstance(post, Post)

    async def reconcile(letter: Letter, ctx: Context) -> None:
        try:
            post.send(letter.name)
        finally:
            post.send(f"{letter.name}-receipt")

    return [Controller(Letter, reconcile)]


async def write_a_letter(user: Cluster) -> None:
    await user.create(Letter.new("one", Spec()))
    await user.settled()


EXPLORATION = Exploration(write_a_letter, posting, outside=Post, ignored=["outside.log"])


def test_plain_calls_are_steps_that_fail_and_lose_their_response() -> None:
    explorer = Explorer(EXPLORATION)
    ids = {plan.id for plan in explorer.plans() if len(plan) == 1}
    for word in ("crash-before", "crash-after", "lost-response"):
        assert f"{word}:outside.Post.send%28one%29#1" in ids
    assert explorer.play(Plan.parse("outside-error:outside.Post.send%28one%29#1:1")).ok


def test_a_crashed_process_does_not_reach_the_outside_from_a_finally_block() -> None:
    played = Explorer(EXPLORATION).play(Plan.parse("crash-before:outside.Post.send%28one%29#1"))
    receipts = [one for one in played.trace if "receipt" in one.name.action]
    assert [one.process for one in receipts] == ["a.2"]


def test_an_ignored_attribute_is_not_compared() -> None:
    plan = Plan.parse("crash-after:outside.Post.send%28one%29#1")
    assert Explorer(EXPLORATION).play(plan).ok
    (found,) = Explorer(replace(EXPLORATION, ignored=[])).play(plan).findings
    assert (found.rule, found.kind) == ("created twice", "outside.log")


def test_generated_ids_are_not_compared_but_counted() -> None:
    plan = Plan.parse("lost-response:outside.Disks.create%28data%29#1")
    assert Explorer(fixed).play(plan).ok
    found = Explorer(broken).play(plan).findings[0]
    assert found.sentence == "there are 2 of outside.volumes/~ instead of 1"


def test_an_id_is_generated_unless_a_caller_passed_it_first() -> None:
    @dataclass
    class Thing:
        id: str
        tag: str

    ids = GeneratedIds()
    ids.note_arguments("blog")
    ids.note_result(Thing("i-7", "blog"))
    ids.note_arguments("i-7")
    found = describe_outside({"i-7": Thing("i-7", "blog")}, ids, lambda text: text)
    assert found == {"outside.items/~": ('{"id":"~","tag":"blog"}',)}


def test_errors_of_the_outside_are_exceptions_that_can_be_made() -> None:
    explorer = Explorer(replace(EXPLORATION, outside_errors=(ConnectionError, TimeoutError("slow"))))
    assert "outside-error:outside.Post.send%28one%29#1:2" in {plan.id for plan in explorer.plans() if len(plan) == 1}


def test_an_outside_without_errors_neither_fails_nor_loses_responses() -> None:
    explorer = Explorer(replace(EXPLORATION, outside_errors=()))
    words = {plan.id.partition(":")[0] for plan in explorer.plans() if len(plan) == 1 and ":outside." in plan.id}
    assert "crash-after" in words
    assert words.isdisjoint({"outside-error", "lost-response", "outage"})
