import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable

import pytest

from levelset.apiserver.authn.users import ADMIN, User
from levelset.apiserver.request_limits import InFlightLimiter, UserLimiter, UserLimits
from levelset.errors import TooManyRequests
from levelset.http import Deferred, Peer, Pieces, Request, Response, iterate
from tests.apiserver.support.rbac_server import open_rbac_server, rule

JANE, BOB = User("jane"), User("bob")
MAPS = "/api/v1/namespaces/default/configmaps"


class Gate:
    """Requests that finish when the gate is opened."""

    def __init__(self, limiter: UserLimiter) -> None:
        self._open = asyncio.Event()
        self._limiter = limiter
        self.tasks: list[asyncio.Future[Response]] = []

    async def enter(self, user: User) -> None:
        made = self._limiter.run(user, self._wait)
        assert not isinstance(made, Response)
        self.tasks.append(asyncio.ensure_future(made))
        await asyncio.sleep(0)

    async def leave(self) -> None:
        self._open.set()
        await asyncio.gather(*self.tasks)

    async def _wait(self) -> Response:
        await self._open.wait()
        return Response(200)


async def test_a_user_at_the_limit_does_not_block_other_users() -> None:
    limiter = UserLimiter(UserLimits(per_user=2))
    gate = Gate(limiter)
    for user in (JANE, JANE, BOB):
        await gate.enter(user)
    with pytest.raises(TooManyRequests, match='"jane" has 2'):
        await gate.enter(JANE)
    await gate.enter(BOB)
    await gate.leave()
    assert (limiter.in_flight, limiter.requests) == (0, {})


async def test_all_users_together_are_limited_and_masters_are_not() -> None:
    limiter = UserLimiter(UserLimits(in_flight=2))
    gate = Gate(limiter)
    await gate.enter(JANE)
    await gate.enter(BOB)
    with pytest.raises(TooManyRequests):
        await gate.enter(User("eve"))
    await gate.enter(ADMIN)
    await gate.leave()


async def test_impersonated_requests_count_for_the_impersonating_user() -> None:
    limiter = UserLimiter(UserLimits(per_user=1))
    gate = Gate(limiter)
    await gate.enter(User("a", impersonated_by=JANE))
    with pytest.raises(TooManyRequests):
        await gate.enter(User("b", impersonated_by=JANE))
    await gate.leave()


async def test_a_failed_or_cancelled_request_is_no_longer_counted() -> None:
    limiter = UserLimiter(UserLimits(per_user=1))

    async def fail() -> Response:
        raise ValueError("out of luck")

    for _ in range(3):
        made = limiter.run(JANE, fail)
        assert isinstance(made, Awaitable)
        with pytest.raises(ValueError, match="out of luck"):
            await made
    gate = Gate(limiter)
    await gate.enter(JANE)
    gate.tasks[0].cancel()
    await asyncio.sleep(0)
    assert limiter.requests == {}


async def test_open_streams_are_counted_separately() -> None:
    limiter = UserLimiter(UserLimits(per_user=1, watches_per_user=1))

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    def stream() -> Response:
        made = limiter.run(JANE, lambda: Response(200, (), pieces()))
        assert isinstance(made, Response)
        return made

    reading = iterate(stream().body)
    await anext(reading)
    assert (limiter.requests, limiter.streams) == ({}, {"jane": 1})
    with pytest.raises(TooManyRequests, match="1 watches"):
        stream()
    assert [piece async for piece in reading] == [b"two"]
    assert limiter.streams == {}


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_request_with_a_large_response_is_in_flight_until_it_is_read(is_whole: bool) -> None:
    async def make() -> AsyncGenerator[bytes, None]:
        yield b"x" * 200_000
        yield b"x" * 200_000

    def respond() -> Response:
        made = limiter.run(JANE, lambda: Response(200, body=b"x" * 400_000 if is_whole else Pieces(make)))
        assert isinstance(made, Response)
        return made

    limiter = UserLimiter(UserLimits(per_user=1))
    read, unread = iterate(respond().body), iterate(respond().body)  # none of both has begun
    first = await anext(read)
    with pytest.raises(TooManyRequests, match='"jane" has 1'):
        respond()
    assert first + b"".join([piece async for piece in read]) == b"x" * 400_000
    assert (limiter.in_flight, limiter.requests) == (0, {})
    await anext(unread)
    assert limiter.requests == {"jane": 1}
    await unread.aclose()  # the connection was lost
    assert (limiter.in_flight, limiter.requests) == (0, {})


async def test_open_watches_of_a_user_are_limited_until_they_end() -> None:
    async with open_rbac_server(user_limits=UserLimits(watches_per_user=2)) as api:
        await api.grant("jane", rule("watch", "configmaps"))
        request = Request("GET", MAPS, "watch=true", peer=Peer("jane"))
        opened = [iterate((await api.send(request)).body) for _ in range(2)]
        waiting = [asyncio.ensure_future(anext(one)) for one in opened]
        await asyncio.sleep(0)
        rejected = await api.send(request)
        assert (rejected.status, dict(rejected.headers)["Retry-After"]) == (429, "1")
        assert isinstance(rejected.body, bytes)
        tree = json.loads(rejected.body)
        assert (tree["kind"], tree["reason"], tree["details"]["retryAfterSeconds"]) == ("Status", "TooManyRequests", 1)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for stream in opened:
            await stream.aclose()
        assert (await api.send(request)).status == 200


async def test_health_endpoints_are_never_limited() -> None:
    async with open_rbac_server(user_limits=UserLimits(per_user=1)) as api:
        limiter = api.server._app.user_limiter
        assert limiter is not None
        limiter.requests["system:anonymous"] = limiter.requests["jane"] = 1
        assert (await api.request(None, "GET", "/readyz"))[0] == 200
        assert (await api.request("jane", "GET", "/version"))[0] == 200
        assert (await api.request("jane", "GET", "/api"))[0] == 429


async def send(limited: InFlightLimiter, path: str) -> Response:
    made = limited.handle(Request("GET", path))
    return made if isinstance(made, Response) else await made


async def test_requests_beyond_the_in_flight_limit_get_429_with_retry_after() -> None:
    gate = asyncio.Event()

    async def wait() -> Response:
        await gate.wait()
        return Response(200)

    def handler(request: Request) -> Response | Awaitable[Response]:
        return wait() if request.path == "/slow" else Response(200)

    limited = InFlightLimiter(handler, 2)
    waiting = [asyncio.ensure_future(send(limited, "/slow")) for _ in range(2)]
    await asyncio.sleep(0)
    busy = await send(limited, "/quick")
    assert (busy.status, dict(busy.headers)["Retry-After"]) == (429, "1")
    assert isinstance(busy.body, bytes)
    assert json.loads(busy.body)["reason"] == "TooManyRequests"
    assert (await send(limited, "/readyz")).status == 200
    gate.set()
    assert [(await one).status for one in waiting] == [200, 200]
    assert (await send(limited, "/quick")).status == 200


async def test_a_failed_request_is_no_longer_in_flight() -> None:
    async def fail() -> Response:
        raise ValueError("out of luck")

    limited = InFlightLimiter(lambda _: fail(), 1)
    with pytest.raises(ValueError, match="out of luck"):
        await send(limited, "/")
    assert limited.in_flight == 0


async def test_deferred_responses_are_in_flight_until_they_settle() -> None:
    responses = [Deferred(), Deferred()]
    limited = InFlightLimiter(lambda request: responses[int(request.query)], 2)
    for number in range(2):
        assert limited.handle(Request("POST", "/", str(number))) is responses[number]
    assert (await send(limited, "/")).status == 429
    responses[0].settle(Response(201))
    responses[1].fail(ValueError("out of luck"))
    assert (limited.in_flight, str(responses[1].exception())) == (0, "out of luck")
