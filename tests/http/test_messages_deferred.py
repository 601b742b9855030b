import asyncio

import pytest

from levelset.http import Deferred, Request, Response


async def test_a_deferred_response_can_be_awaited() -> None:
    response = Deferred()
    asyncio.get_running_loop().call_soon(response.settle, Response(204))
    assert (await response).status == 204


async def test_when_settled_callbacks_run_immediately() -> None:
    response, received = Deferred(), list[int]()
    response.when_settled(lambda done: received.append(done.result().status))
    response.settle(Response(201))
    assert received == [201]
    response.when_settled(lambda done: received.append(done.result().status))
    assert received == [201, 201]


async def test_a_failing_callback_is_logged_and_does_not_affect_others(caplog) -> None:
    response, received = Deferred(), list[object]()
    response.when_settled(lambda _: received[0])
    response.when_settled(received.append)
    response.settle(Response(200))
    assert received == [response]
    assert "a response could not be delivered" in caplog.text


async def test_a_cancelled_waiter_is_cancelled_when_the_response_is_there() -> None:
    response = Deferred()
    waiting = asyncio.ensure_future(wait(response))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    assert not waiting.done()
    response.settle(Response(200))
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_deferred_response_is_sent_immediately(serve, connect, until) -> None:
    responses: list[Deferred] = []

    def handler(_: Request) -> Deferred:
        responses.append(Deferred())
        return responses[-1]

    server = await serve(handler)
    client = await connect(server)
    client.send_request()
    client.send_request()  # queued behind the first response
    await until(lambda: responses)
    responses[0].settle(Response(200, (), b"first"))
    assert len(responses) == 2  # so the first was sent
    responses[1].fail(ValueError("out of luck"))
    assert (await client.read())[::2] == (200, b"first")
    assert (await client.read())[0] == 500


async def test_a_stopping_server_sends_the_deferred_response_first(serve, connect, until) -> None:
    responses: list[Deferred] = []

    def handler(_: Request) -> Deferred:
        responses.append(Deferred())
        return responses[-1]

    server = await serve(handler)
    client = await connect(server)
    client.send_request()
    await until(lambda: responses)
    stopping = asyncio.ensure_future(server.stop(within=10))
    await asyncio.sleep(0)
    responses[0].settle(Response(200, (), b"last"))
    assert (await client.read())[::2] == (200, b"last")
    await stopping


async def test_stopping_waits_for_a_deferred_response_to_a_disconnected_client(serve, connect, until) -> None:
    responses: list[Deferred] = []

    def handler(_: Request) -> Deferred:
        responses.append(Deferred())
        return responses[-1]

    server = await serve(handler)
    client = await connect(server)
    client.send_request()
    await until(lambda: responses)
    await client.close()
    await until(lambda: not server.connections)
    stopping = asyncio.ensure_future(server.stop(within=0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not stopping.done()
    responses[0].settle(Response(200))
    await stopping


async def wait(response: Deferred) -> Response:
    return await response
