import asyncio
import logging
from collections import defaultdict
from typing import Any

import pytest

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.client.client import Client
from levelset.client.transport.interface import Answer, Call, Guard, Hook, Send, Tallied, Tally
from levelset.errors import ApiError, ConfigError, Unreachable
from levelset.http import Headers
from tests.apiserver.clock import virtual
from tests.client.world import CONFIG_MAP, Namespace, Website, answering, failing, open_client, recording

LIST = b'{"kind":"NamespaceList","items":[]}'


async def test_each_distinct_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def warned(text: str) -> Answer:
        return answering(200, LIST, warning=f'299 - "{text}"')

    hook = failing(warned("old version"), warned("old version"), warned("other"))
    async with open_client(crd=False, hooks=[hook]) as client:
        with caplog.at_level(logging.WARNING, logger="levelset.client"):
            for _ in range(3):
                await client.list(Namespace)
    records: list[Any] = [record for record in caplog.records if record.name == "levelset.client"]
    assert [record.warning for record in records] == ["old version", "other"]
    assert records[0].request == "list Namespace"


async def test_warnings_go_to_whoever_asked_for_them() -> None:
    told: list[tuple[str, str]] = []
    hook = failing(Answer(status=200, headers=Headers([("Warning", '299 - "a"'), ("Warning", '299 - "b"')]), body=LIST))
    asking = {"on_warning": lambda call, text: told.append((call.words, text))}
    async with open_client(crd=False, hooks=[hook], **asking) as client:
        await client.list(Namespace)
    assert told == [("list Namespace", "a"), ("list Namespace", "b")]


async def test_a_redirect_is_no_answer() -> None:
    async with open_client(crd=False, hooks=[failing(answering(302, location="/elsewhere"))]) as client:
        with pytest.raises(ApiError, match="302"):
            await client.list(Namespace)


async def test_a_hook_may_change_the_call_or_answer_in_the_servers_place() -> None:
    async def elsewhere(call: Call, send: Send) -> Answer:
        if "websites" in call.path:
            raise Unreachable("by a hook")
        return Answer(status=200, body=LIST)

    async with open_client(crd=False, hooks=[elsewhere]) as client:
        assert len(await client.list(Namespace)) == 0
        with pytest.raises(Unreachable, match="by a hook"):
            await client.list(Website)


@virtual
async def test_a_client_that_is_closed_says_so_at_once_and_in_the_words_of_the_call() -> None:
    async with open_client(crd=False) as client:
        await client.aclose()
        assert client.is_closed
        began = timing.now()
        for call in (client.list(Namespace), client.get(CONFIG_MAP, "a"), client.using(timeout=1).get(Website, "a")):
            with pytest.raises(Unreachable, match=r"(list|get|read) .*: this client is closed; connect another one"):
                await call
        assert timing.now() == began


def test_a_client_is_not_used_on_another_event_loop_than_its_first() -> None:
    async def open_one() -> Client:
        client = await Client.connect(ApiServer())
        await client.list(Namespace)
        return client

    async def use(client: Client) -> None:
        with pytest.raises(ConfigError, match="list Namespace: this client belongs to the event loop"):
            await client.list(Namespace)
        with pytest.raises(ConfigError, match="close this client: "):
            await client.aclose()

    asyncio.run(use(asyncio.run(open_one())))


@pytest.mark.parametrize("seconds", [0, -1, None, "5", float("nan")], ids=repr)
async def test_a_timeout_that_is_none_is_refused(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="every call has one"):
        await Client.connect(ApiServer(), timeout=seconds)
    async with open_client(crd=False) as client:
        if seconds is not None:  # which leaves it as it is
            with pytest.raises(ConfigError, match="timeout="):
                client.using(timeout=seconds)


async def test_whoever_fails_over_a_warning_does_not_lose_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    def fail(call: Call, text: str) -> None:
        raise ValueError(f"{call.words}: {text}")

    hook = failing(answering(200, LIST, warning='299 - "old"'))
    async with open_client(crd=False, hooks=[hook], on_warning=fail) as client:
        assert len(await client.list(Namespace)) == 0
    assert "list Namespace: old" in caplog.text


class Played:
    """A transport that plays these outcomes, one for each attempt."""

    def __init__(self, *outcomes: Answer | BaseException) -> None:
        self.left = list(outcomes)
        self.timeouts: list[float] = []

    async def send(self, call: Call, /) -> Answer:
        self.timeouts.append(call.timeout)
        outcome = self.left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def aclose(self) -> None:
        pass


def tallied(transport: Played, *more: Hook) -> tuple[Client, Tallied]:
    """A client with a tally of its verbs and one of its attempts, and what they count."""
    counts: Tallied = defaultdict(int)
    client = Client(transport, hooks=[Tally(counts, "verb"), *more], wire_hooks=[Tally(counts, "attempt")], timeout=10)
    return client, counts


OK = answering(200, LIST)
BUSY = answering(503, retry_after="4")
LOST = Unreachable("reset")


@pytest.mark.parametrize(
    ("outcomes", "attempts", "verb"),
    [
        ([OK], {200: 1}, 200),
        ([answering(404)], {404: 1}, 404),
        ([BUSY, OK], {503: 1, 200: 1}, 200),
        ([LOST, BUSY, OK], {None: 1, 503: 1, 200: 1}, 200),
        ([BUSY, BUSY, BUSY], {503: 3}, 503),
        ([LOST, ValueError("x")], {None: 2}, None),
        ([ValueError("x")], {None: 1}, None),
        ([asyncio.CancelledError()], {None: 1}, None),
    ],
)
@pytest.mark.parametrize("is_direct", [True, False])
@virtual
async def test_a_tally_counts_each_verb_and_one_at_the_wire_each_attempt(
    outcomes: list[Any], attempts: dict[int | None, int], verb: int | None, is_direct: bool
) -> None:
    client, counts = tallied(Played(*outcomes), *([] if is_direct else [recording([])]))
    try:
        await client.list(Namespace)
    except (ApiError, ValueError, asyncio.CancelledError) as error:
        assert outcomes[-1] is not OK
        assert error.__context__ is None  # one trouble is not told as the cause of another
    assert counts == {(verb, "GET", "verb"): 1} | {(key, "GET", "attempt"): count for key, count in attempts.items()}


@pytest.mark.parametrize("is_direct", [True, False])
@virtual
async def test_all_attempts_have_the_time_of_the_call_whether_hooks_stand_in_between_or_not(is_direct: bool) -> None:
    transport = Played(*[BUSY] * 9)
    client, _ = tallied(transport, *([] if is_direct else [recording([])]))
    began = timing.now()
    with pytest.raises(ApiError, match="503"):
        await client.list(Namespace)
    assert timing.now() - began <= 10
    assert [round(timeout) for timeout in transport.timeouts] == [10, 6, 2]


async def test_a_tally_is_a_hook_as_any_other() -> None:
    counts: Tallied = defaultdict(int)
    tally = Tally(counts, "here")
    assert await tally(Call(method="GET", path="/x"), Played(OK).send) is OK
    with pytest.raises(Unreachable):
        await tally(Call(method="PUT", path="/x"), Played(LOST).send)
    assert counts == {(200, "GET", "here"): 1, (None, "PUT", "here"): 1}


async def test_a_tally_that_is_added_later_counts_what_goes_through_the_new_client() -> None:
    client, counts = tallied(Played(OK, OK, OK))
    later = client.hooked(Tally(counts, "later"))
    await later.list(Namespace)
    calls: list[Call] = []
    await later.hooked(recording(calls)).list(Namespace)
    await client.list(Namespace)
    said = {label: count for (_, _, label), count in counts.items()}
    assert (said, len(calls)) == ({"verb": 3, "attempt": 3, "later": 2}, 1)


@pytest.mark.parametrize("is_direct", [True, False])
async def test_what_a_guard_refuses_is_not_sent_and_nobody_behind_it_hears_of_it(is_direct: bool) -> None:
    def check(call: Call) -> None:
        if call.method != "GET":
            raise ConfigError(f"not now: {call.words}")

    transport = Played(OK, answering(404))
    client, counts = tallied(transport, *([] if is_direct else [recording([])]))
    guarded = client.hooked(Guard(check)).hooked(Guard(lambda call: None))
    assert len(await guarded.list(Namespace)) == 0
    with pytest.raises(ConfigError, match="not now: delete Namespace/a"):
        await guarded.delete(Namespace, "a")
    assert counts == {(200, "GET", "verb"): 1, (200, "GET", "attempt"): 1}
    assert await client.delete(Namespace, "a", missing_ok=True) is None
    assert transport.left == []


async def test_a_guard_behind_a_tally_is_asked_after_it_was_passed() -> None:
    def refuse(call: Call) -> None:
        raise ConfigError("never")

    client, counts = tallied(Played(), Guard(refuse))
    with pytest.raises(ConfigError, match="never"):
        await client.list(Namespace)
    assert counts == {(None, "GET", "verb"): 1}
