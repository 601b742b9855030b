import asyncio
import logging
from collections import defaultdict
from typing import Any

import pytest

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.client.client import Client
from levelset.client.internals import with_hook, with_settings
from levelset.client.request_pipeline import RequestPipeline, WarningLog
from levelset.client.transport.interface import Call, CallCounter, CallCounts, Guard, Hook, Response, Send
from levelset.client.transport.retry import Retries
from levelset.errors import ApiError, ConfigError, Unreachable
from levelset.http import Headers
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import CONFIG_MAP, Namespace, Website, failing, fake_response, open_client, recording

LIST = b'{"kind":"NamespaceList","items":[]}'


async def test_each_distinct_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def warned(text: str) -> Response:
        return fake_response(200, LIST, warning=f'299 - "{text}"')

    hook = failing(warned("old version"), warned("old version"), warned("other"))
    async with open_client(crd=False, hooks=[hook]) as client:
        with caplog.at_level(logging.WARNING, logger="levelset.client"):
            for _ in range(3):
                await client.list(Namespace)
    records: list[Any] = [record for record in caplog.records if record.name == "levelset.client"]
    assert [record.warning for record in records] == ["old version", "other"]
    assert records[0].request == "list Namespace"


async def test_warnings_go_to_on_warning() -> None:
    reported: list[tuple[str, str]] = []
    hook = failing(
        Response(status=200, headers=Headers([("Warning", '299 - "a"'), ("Warning", '299 - "b"')]), body=LIST)
    )
    lookup = {"on_warning": lambda call, text: reported.append((call.words, text))}
    async with open_client(crd=False, hooks=[hook], **lookup) as client:
        await client.list(Namespace)
    assert reported == [("list Namespace", "a"), ("list Namespace", "b")]


async def test_expected_warnings_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    hook = failing(*(fake_response(200, LIST, warning=f'299 - "{text}"') for text in ("old version", "other")))
    async with open_client(crd=False, hooks=[hook], on_warning=WarningLog(expected=["old version"])) as client:
        for _ in range(2):
            await client.list(Namespace)
    records: list[Any] = [record for record in caplog.records if record.name == "levelset.client"]
    assert [record.warning for record in records] == ["other"]


async def test_a_redirect_is_an_error() -> None:
    async with open_client(crd=False, hooks=[failing(fake_response(302, location="/elsewhere"))]) as client:
        with pytest.raises(ApiError, match="302"):
            await client.list(Namespace)


async def test_a_hook_may_change_the_call_or_respond_in_place_of_the_server() -> None:
    async def elsewhere(call: Call, send: Send) -> Response:
        if "websites" in call.path:
            raise Unreachable("by a hook")
        return Response(status=200, body=LIST)

    async with open_client(crd=False, hooks=[elsewhere]) as client:
        assert len(await client.list(Namespace)) == 0
        with pytest.raises(Unreachable, match="by a hook"):
            await client.list(Website)


@virtual
async def test_a_closed_client_fails_at_once_and_the_error_describes_the_call() -> None:
    async with open_client(crd=False) as client:
        await client.aclose()
        assert client.is_closed
        began = timing.now()
        for call in (
            client.list(Namespace),
            client.get(CONFIG_MAP, "a"),
            with_settings(client, timeout=1).get(Website, "a"),
        ):
            with pytest.raises(
                Unreachable, match=r"(list|get|discover) .*: this client is closed; connect another one"
            ):
                await call
        assert timing.now() == began


def test_a_client_is_refused_on_another_event_loop() -> None:
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
async def test_an_invalid_timeout_is_refused(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="every request has a timeout"):
        await Client.connect(ApiServer(), timeout=seconds)
    async with open_client(crd=False) as client:
        if seconds is not None:  # which leaves it as it is
            with pytest.raises(ConfigError, match="timeout="):
                with_settings(client, timeout=seconds)


async def test_a_failing_on_warning_does_not_lose_the_response(caplog: pytest.LogCaptureFixture) -> None:
    def fail(call: Call, text: str) -> None:
        raise ValueError(f"{call.words}: {text}")

    hook = failing(fake_response(200, LIST, warning='299 - "old"'))
    async with open_client(crd=False, hooks=[hook], on_warning=fail) as client:
        assert len(await client.list(Namespace)) == 0
    assert "list Namespace: old" in caplog.text


class Played:
    """A transport with these outcomes, one for each attempt."""

    def __init__(self, *outcomes: Response | BaseException) -> None:
        self.left = list(outcomes)
        self.timeouts: list[float] = []

    async def send(self, call: Call, /) -> Response:
        self.timeouts.append(call.timeout)
        outcome = self.left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def aclose(self) -> None:
        pass


def tallied(transport: Played, *more: Hook) -> tuple[Client, CallCounts]:
    """A client with one hook for calls and one for attempts, and their counts."""
    counts: CallCounts = defaultdict(int)
    client = Client(
        transport, hooks=[CallCounter(counts, "verb"), *more], wire_hooks=[CallCounter(counts, "attempt")], timeout=10
    )
    return client, counts


OK = fake_response(200, LIST)
BUSY = fake_response(503, retry_after="4")
LOST = Unreachable("reset")


@pytest.mark.parametrize(
    ("outcomes", "attempts", "verb"),
    [
        ([OK], {200: 1}, 200),
        ([fake_response(404)], {404: 1}, 404),
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
async def test_a_counter_counts_each_verb_and_a_wire_counter_each_attempt(
    outcomes: list[Any], attempts: dict[int | None, int], verb: int | None, is_direct: bool
) -> None:
    client, counts = tallied(Played(*outcomes), *([] if is_direct else [recording([])]))
    try:
        await client.list(Namespace)
    except (ApiError, ValueError, asyncio.CancelledError) as error:
        assert outcomes[-1] is not OK
        assert error.__context__ is None  # one error is not chained to another
    assert counts == {(verb, "GET", "verb"): 1} | {(key, "GET", "attempt"): count for key, count in attempts.items()}


@pytest.mark.parametrize("is_direct", [True, False])
@virtual
async def test_all_attempts_share_the_timeout_of_the_call_with_and_without_hooks(is_direct: bool) -> None:
    transport = Played(*[BUSY] * 9)
    client, _ = tallied(transport, *([] if is_direct else [recording([])]))
    began = timing.now()
    with pytest.raises(ApiError, match="503"):
        await client.list(Namespace)
    assert timing.now() - began <= 10
    assert [round(timeout) for timeout in transport.timeouts] == [10, 6, 2]


async def test_a_counter_works_as_a_plain_hook() -> None:
    counts: CallCounts = defaultdict(int)
    tally = CallCounter(counts, "here")
    assert await tally(Call(method="GET", path="/x"), Played(OK).send) is OK
    with pytest.raises(Unreachable):
        await tally(Call(method="PUT", path="/x"), Played(LOST).send)
    assert counts == {(200, "GET", "here"): 1, (None, "PUT", "here"): 1}


async def test_an_added_counter_counts_the_calls_of_the_derived_client() -> None:
    client, counts = tallied(Played(OK, OK, OK))
    later = with_hook(client, CallCounter(counts, "later"))
    await later.list(Namespace)
    calls: list[Call] = []
    await with_hook(later, recording(calls)).list(Namespace)
    await client.list(Namespace)
    said = {label: count for (_, _, label), count in counts.items()}
    assert (said, len(calls)) == ({"verb": 3, "attempt": 3, "later": 2}, 1)


@pytest.mark.parametrize("is_direct", [True, False])
async def test_a_call_that_a_guard_refuses_is_neither_sent_nor_seen_by_later_hooks(is_direct: bool) -> None:
    def check(call: Call) -> None:
        if call.method != "GET":
            raise ConfigError(f"not now: {call.words}")

    transport = Played(OK, fake_response(404))
    client, counts = tallied(transport, *([] if is_direct else [recording([])]))
    guarded = with_hook(with_hook(client, Guard(check)), Guard(lambda call: None))
    assert len(await guarded.list(Namespace)) == 0
    with pytest.raises(ConfigError, match="not now: delete Namespace/a"):
        await guarded.delete(Namespace, "a")
    assert counts == {(200, "GET", "verb"): 1, (200, "GET", "attempt"): 1}
    assert await client.delete(Namespace, "a", missing_ok=True) is None
    assert transport.left == []


async def test_a_guard_behind_a_counter_runs_after_it() -> None:
    def refuse(call: Call) -> None:
        raise ConfigError("never")

    client, counts = tallied(Played(), Guard(refuse))
    with pytest.raises(ConfigError, match="never"):
        await client.list(Namespace)
    assert counts == {(None, "GET", "verb"): 1}


@pytest.mark.parametrize("is_direct", [True, False])
@virtual
async def test_a_guard_checks_every_attempt_so_that_a_retry_is_refused_too(is_direct: bool) -> None:
    """A leader that loses its Lease while a write waits for its next attempt must not send it."""
    attempts: list[str] = []
    is_leader = [True]

    async def busy(call: Call, send: Send) -> Response:
        attempts.append(call.verb)
        return fake_response(503, b"{}")

    def check(_: Call) -> None:
        if not is_leader:
            raise ConfigError("refused")

    transport = Refusing(attempts)
    pipeline = RequestPipeline(transport, retries=Retries(), wire_hooks=[] if is_direct else [busy])
    guarded = pipeline.with_hook(Guard(check))
    asyncio.get_running_loop().call_later(0.0001, is_leader.clear)
    with pytest.raises(ConfigError, match="refused"):
        await guarded.send(Call(method="DELETE", path="/api/v1/nodes/a", verb="delete"))
    assert attempts == ["delete"]


class Refusing:
    """A transport that answers 503."""

    def __init__(self, attempts: list[str]) -> None:
        self._attempts = attempts

    async def send(self, call: Call) -> Response:
        self._attempts.append(call.verb)
        return fake_response(503, b"{}")

    async def aclose(self) -> None: ...
