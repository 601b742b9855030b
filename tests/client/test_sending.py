import asyncio
import logging
from typing import Any

import pytest

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.client.calls import Answer, Call, Guard, Hook, Send, Tally
from levelset.client.client import Client
from levelset.errors import ApiError, ConfigError, Unreachable
from levelset.web import Headers
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


def tallied(transport: Played, *more: Hook) -> tuple[Client, list[tuple[str, str, int | None]]]:
    """A client with a tally of its verbs and one of its attempts, and what they note."""
    noted: list[tuple[str, str, int | None]] = []

    def tally(name: str) -> Tally:
        return Tally(lambda call, status: noted.append((name, call.verb, status)))

    client = Client(transport, hooks=[tally("verb"), *more], wire_hooks=[tally("attempt")], timeout=10)
    return client, noted


OK = answering(200, LIST)
BUSY = answering(503, retry_after="4")
LOST = Unreachable("reset")


@pytest.mark.parametrize(
    ("outcomes", "noted"),
    [
        ([OK], [("attempt", 200), ("verb", 200)]),
        ([answering(404)], [("attempt", 404), ("verb", 404)]),
        ([BUSY, OK], [("attempt", 503), ("attempt", 200), ("verb", 200)]),
        ([LOST, BUSY, OK], [("attempt", None), ("attempt", 503), ("attempt", 200), ("verb", 200)]),
        ([BUSY, BUSY, BUSY], [("attempt", 503), ("attempt", 503), ("attempt", 503), ("verb", 503)]),
        ([LOST, ValueError("x")], [("attempt", None), ("attempt", None), ("verb", None)]),
        ([ValueError("x")], [("attempt", None), ("verb", None)]),
        ([asyncio.CancelledError()], [("attempt", None), ("verb", None)]),
    ],
)
@pytest.mark.parametrize("is_direct", [True, False])
@virtual
async def test_tallies_are_told_of_each_verb_and_each_attempt_in_turn(
    outcomes: list[Any], noted: list[Any], is_direct: bool
) -> None:
    client, told = tallied(Played(*outcomes), *([] if is_direct else [recording([])]))
    try:
        await client.list(Namespace)
    except (ApiError, ValueError, asyncio.CancelledError) as error:
        assert outcomes[-1] is not OK
        assert error.__context__ is None
    assert [(name, status) for name, _, status in told] == noted


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
    noted: list[tuple[str, int | None]] = []
    tally = Tally(lambda call, status: noted.append((call.path, status)))
    call = Call(method="GET", path="/x")
    assert await tally(call, Played(OK).send) is OK
    with pytest.raises(Unreachable):
        await tally(call, Played(LOST).send)
    assert noted == [("/x", 200), ("/x", None)]


async def test_a_tally_that_is_added_later_is_told_what_it_sees_and_before_it_who_was_there() -> None:
    client, told = tallied(Played(OK, OK, OK))
    later = client.hooked(Tally(lambda call, status: told.append(("later", call.verb, status))))
    await later.list(Namespace)
    assert [name for name, _, _ in told] == ["attempt", "verb", "later"]
    calls: list[Call] = []
    await later.hooked(recording(calls)).list(Namespace)
    assert [name for name, _, _ in told[3:]] == ["attempt", "verb", "later"]
    await client.list(Namespace)
    assert ([name for name, _, _ in told[6:]], len(calls)) == (["attempt", "verb"], 1)


@pytest.mark.parametrize("is_direct", [True, False])
async def test_what_a_guard_refuses_is_not_sent_and_nobody_behind_it_hears_of_it(is_direct: bool) -> None:
    def check(call: Call) -> None:
        if call.method != "GET":
            raise ConfigError(f"not now: {call.words}")

    transport = Played(OK, answering(404))
    client, told = tallied(transport, *([] if is_direct else [recording([])]))
    guarded = client.hooked(Guard(check)).hooked(Guard(lambda call: None))
    assert len(await guarded.list(Namespace)) == 0
    with pytest.raises(ConfigError, match="not now: delete Namespace/a"):
        await guarded.delete(Namespace, "a")
    assert [status for _, _, status in told] == [200, 200]
    assert await client.delete(Namespace, "a", missing_ok=True) is None
    assert transport.left == []


async def test_a_guard_behind_a_tally_is_asked_after_it_was_passed() -> None:
    def refuse(call: Call) -> None:
        raise ConfigError("never")

    client, told = tallied(Played(), Guard(refuse))
    with pytest.raises(ConfigError, match="never"):
        await client.list(Namespace)
    assert told == [("verb", "list", None)]
