"""The world outside of the API: its calls are steps, and its public state is compared at the end."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from levelset import Context, Controller, Ref, Resource, Spec, Status, source
from levelset.errors import ConfigError
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, Plan
from levelset.testing.explore.outside_world import GeneratedIds, describe_outside
from levelset.testing.explore.reports.report import describe_step
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


class Inbox:
    """A mail server that others write to."""

    def __init__(self) -> None:
        self.mails: set[str] = set()
        self.read: set[str] = set()
        self.arrived: asyncio.Queue[str] = asyncio.Queue()

    async def receive(self, letter: str) -> None:
        self.mails.add(letter)
        await self.arrived.put(letter)

    async def all(self) -> list[str]:
        return sorted(self.mails)

    async def mark_read(self, letter: str) -> None:
        self.read.add(letter)


class LetterStatus(Status):
    mails: tuple[str, ...] = ()


class Mailbox(Resource[Spec, LetterStatus], api="outside.dev/v1"):
    """Shows what is in the inbox."""


def reading(inbox: Inbox) -> list[Controller[Any]]:
    async def reconcile(mailbox: Mailbox, ctx: Context) -> None:
        mails = await inbox.all()
        for one in mails:
            await inbox.mark_read(one)
        await ctx.set_status(mailbox, LetterStatus(mails=tuple(mails)))

    async def arrivals() -> AsyncIterator[Ref[Mailbox]]:
        while True:
            await inbox.arrived.get()
            yield Ref(Mailbox, "one", "test")

    return [Controller(Mailbox, reconcile, source(arrivals))]


async def mails_arrive(user: Cluster, inbox: Inbox) -> None:
    made = await user.create(Mailbox.new("one", Spec()))
    await user.settled()
    await inbox.receive("bill-1")
    await user.settled()
    await user.until(made.ref, lambda one: one.status is not None and one.status.mails == ("bill-1",))


MAILS = Exploration(mails_arrive, reading, outside=Inbox)


def test_a_scenario_with_a_second_parameter_acts_in_the_outside_itself() -> None:
    explorer = Explorer(MAILS)
    played = explorer.play(Plan.parse("crash-after:outside.Inbox.all%28%29#2"))
    assert played.ok
    (act,) = [one for one in played.trace if one.act == "user" and one.name.verb == "outside"]
    assert str(act.name) == "outside Inbox.receive(bill-1) by user#1"
    assert describe_step(act) == "the user calls Inbox.receive(bill-1) -> done"


def test_what_a_scenario_gives_to_the_outside_is_no_generated_id() -> None:
    played = Explorer(MAILS).play(Plan())
    marked = {one.name.action for one in played.trace if "mark_read" in one.name.action}
    assert marked == {"outside Inbox.mark_read(bill-1)"}


def test_calls_of_the_scenario_are_not_disturbed() -> None:
    ids = {plan.id for plan in Explorer(MAILS).plans()}
    assert [one for one in ids if "receive" in one] == []


def test_a_scenario_that_takes_an_outside_needs_one() -> None:
    with pytest.raises(ConfigError, match=r"mails_arrive takes a second parameter, the outside; give outside="):
        Exploration(mails_arrive, lambda: reading(Inbox()))


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
