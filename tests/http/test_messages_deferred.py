import asyncio

import pytest

from levelset.http import Deferred, Request, Response


async def test_a_deferred_answer_can_be_awaited() -> None:
    answer = Deferred()
    asyncio.get_running_loop().call_soon(answer.settle, Response(204))
    assert (await answer).status == 204


async def test_who_asked_is_called_in_the_moment_the_answer_is_there() -> None:
    answer, heard = Deferred(), list[int]()
    answer.when_settled(lambda done: heard.append(done.result().status))
    answer.settle(Response(201))
    assert heard == [201]
    answer.when_settled(lambda done: heard.append(done.result().status))
    assert heard == [201, 201]


async def test_a_call_that_fails_is_logged_and_disturbs_no_other(caplog) -> None:
    answer, heard = Deferred(), list[object]()
    answer.when_settled(lambda _: heard[0])
    answer.when_settled(heard.append)
    answer.settle(Response(200))
    assert heard == [answer]
    assert "an answer could not be handed on" in caplog.text


async def test_whoever_is_cancelled_hears_of_it_when_the_answer_is_there() -> None:
    answer = Deferred()
    waiting = asyncio.ensure_future(wait(answer))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    assert not waiting.done()
    answer.settle(Response(200))
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_deferred_answer_is_sent_in_the_moment_it_is_there(serve, connect, until) -> None:
    answers: list[Deferred] = []

    def handler(_: Request) -> Deferred:
        answers.append(Deferred())
        return answers[-1]

    server = await serve(handler)
    client = await connect(server)
    client.ask()
    client.ask()  # waits for its turn
    await until(lambda: answers)
    answers[0].settle(Response(200, (), b"first"))
    assert len(answers) == 2  # so the first has left
    answers[1].fail(ValueError("out of luck"))
    assert (await client.read())[::2] == (200, b"first")
    assert (await client.read())[0] == 500


async def test_a_server_that_stops_sends_the_deferred_answer_first(serve, connect, until) -> None:
    answers: list[Deferred] = []

    def handler(_: Request) -> Deferred:
        answers.append(Deferred())
        return answers[-1]

    server = await serve(handler)
    client = await connect(server)
    client.ask()
    await until(lambda: answers)
    stopping = asyncio.ensure_future(server.stop(within=10))
    await asyncio.sleep(0)
    answers[0].settle(Response(200, (), b"last"))
    assert (await client.read())[::2] == (200, b"last")
    await stopping


async def test_an_answer_to_a_client_that_left_is_for_nobody_and_holds_up_a_stop(serve, connect, until) -> None:
    answers: list[Deferred] = []

    def handler(_: Request) -> Deferred:
        answers.append(Deferred())
        return answers[-1]

    server = await serve(handler)
    client = await connect(server)
    client.ask()
    await until(lambda: answers)
    await client.close()
    await until(lambda: not server.connections)
    stopping = asyncio.ensure_future(server.stop(within=0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not stopping.done()
    answers[0].settle(Response(200))
    await stopping


async def wait(answer: Deferred) -> Response:
    return await answer
