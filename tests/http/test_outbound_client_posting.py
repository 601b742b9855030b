"""Connections are kept for the next request to the same place, and no request is ever sent twice."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from levelset.errors import Unreachable
from levelset.http import Authority, Destination, Posted, Poster
from tests.http.peers import answering, contexts

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def open_poster(*, idle: float = 60.0, most: int = 64, most_each: int = 8) -> Generator[Poster, None, None]:
    poster = Poster(idle=idle, most=most, most_each=most_each)
    try:
        yield poster
    finally:
        poster.close()


async def send(poster: Poster, to: Destination) -> Posted:
    return await poster.post(to, b"{}", tls=contexts()[1], largest=1000)


async def test_a_connection_is_used_again_for_the_next_request_to_the_same_place() -> None:
    async with answering(OK, OK, OK, stays=True) as peer:
        with open_poster() as poster:
            for path in ("/a", "/b", "/a"):
                assert await send(poster, peer.to._replace(path=path)) == Posted(200, b"ok")
        await peer.ended.acquire()
    assert peer.connections == 1
    assert [head.split()[1] for head in peer.heads] == [b"/a", b"/b", b"/a"]


async def test_requests_at_the_same_time_have_a_connection_each_and_only_some_are_kept() -> None:
    async with answering(*[OK] * 4, stays=True) as peer:
        with open_poster(most_each=2) as poster:
            await asyncio.gather(*[send(poster, peer.to) for _ in range(4)])
            assert (peer.connections, poster.kept) == (4, 2)


async def test_places_together_keep_no_more_than_the_most() -> None:
    async with answering(OK, stays=True) as first, answering(OK, stays=True) as second:
        with open_poster(most=1) as poster:
            await send(poster, first.to)
            await send(poster, second.to)
            assert poster.kept == 1
            await first.ended.acquire()


async def test_a_connection_that_was_trusted_for_somebody_is_not_used_for_somebody_else() -> None:
    async with answering(OK, OK, stays=True) as peer:
        with open_poster() as poster:
            await send(poster, peer.to)
            with pytest.raises(Unreachable, match="not trusted"):
                await send(poster, peer.to._replace(name="example.com"))
            other = (await asyncio.to_thread(Authority.create, "others")).client_context()
            with pytest.raises(Unreachable, match="not trusted"):
                await poster.post(peer.to, b"{}", tls=other, largest=1000)
    assert len(peer.heads) == 1


async def test_an_idle_connection_is_ended_after_a_while() -> None:
    async with answering(OK, stays=True) as peer:
        with open_poster(idle=0.01) as poster:
            await send(poster, peer.to)
            await peer.ended.acquire()
            assert poster.kept == 0


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=1\r\n\r\nok",
        OK + OK,
        OK + b"and more",
    ],
)
async def test_a_connection_that_cannot_be_relied_on_is_not_kept(answer: bytes) -> None:
    async with answering(answer, stays=True) as peer:
        with open_poster() as poster:
            assert await send(poster, peer.to) == Posted(200, b"ok")
            assert poster.kept == 0
            await peer.ended.acquire()


async def test_a_connection_that_the_other_end_has_closed_is_not_used_again() -> None:
    async with answering(OK, OK) as peer:
        with open_poster() as poster:
            await send(poster, peer.to)
            await peer.ended.acquire()
            while poster.kept:  # noqa: ASYNC110 - nobody tells that the news of it has come
                await asyncio.sleep(0)
            assert await send(poster, peer.to) == Posted(200, b"ok")
    assert peer.connections == 2


async def test_a_request_that_was_sent_is_not_sent_again_when_the_other_end_hangs_up() -> None:
    async with answering(OK, b"", OK, stays=True) as peer:
        with open_poster() as poster:
            await send(poster, peer.to)
            with pytest.raises(Unreachable, match="hung up") as caught:
                await send(poster, peer.to)
            assert caught.value.is_sent
            assert len(peer.heads) == 2
            assert await send(poster, peer.to) == Posted(200, b"ok")
    assert peer.connections == 2


async def test_a_request_that_was_given_up_ends_its_connection() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", stays=True) as peer:
        with open_poster() as poster:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await send(poster, peer.to)
            await peer.ended.acquire()
            assert poster.kept == 0


async def test_a_connection_that_is_in_use_while_all_are_closed_is_not_kept() -> None:
    async with answering(OK, stays=True) as peer:
        with open_poster() as poster:
            sending = asyncio.create_task(send(poster, peer.to))
            await asyncio.sleep(0)
            poster.close()
            await sending
            assert poster.kept == 0
            await peer.ended.acquire()
