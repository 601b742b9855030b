"""The event loop in virtual time: jumps, idle, threads, refused I/O and hang detection."""

import asyncio
import contextlib
import gc
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from levelset.testing import RealWork, Stuck, VirtualLoop, run, virtual

NO_SOCKET: Any = None


def slowly(pause: float, name: str) -> str:
    time.sleep(pause)
    return name


def loop_time() -> float:
    return asyncio.get_running_loop().time()


async def rest() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    await loop.idle()


@virtual
async def test_time_starts_at_zero_and_jumps_to_the_next_timer() -> None:
    began, real = loop_time(), time.monotonic()
    await asyncio.sleep(86400)
    assert (began, loop_time()) == (0.0, 86400.0)
    assert time.monotonic() - real < 1.0


@virtual
async def test_timers_fire_in_the_order_of_their_times() -> None:
    fired: list[tuple[float, str]] = []

    async def fire(name: str, after: float) -> None:
        await asyncio.sleep(after)
        fired.append((loop_time(), name))

    await asyncio.gather(fire("c", 3), fire("a", 0.1), fire("b", 0.2))
    assert fired == [(0.1, "a"), (0.2, "b"), (3.0, "c")]


@virtual
async def test_idle_returns_when_no_task_can_run_and_before_time_advances() -> None:
    done: list[int] = []

    async def work() -> None:
        for number in range(100):
            await asyncio.sleep(0)
            done.append(number)
        await asyncio.sleep(1)
        done.append(-1)

    task = asyncio.create_task(work())
    await rest()
    assert (done, loop_time()) == (list(range(100)), 0.0)
    await task


@virtual
async def test_a_jump_goes_to_the_next_timer_and_no_further() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    sleeper = asyncio.create_task(asyncio.sleep(5))
    await loop.idle()
    await loop.jump(100.0)
    assert loop.time() == 5.0
    await loop.jump(7.0)
    assert loop.time() == 7.0
    assert sleeper.done()


def test_a_hang_is_reported_at_once_with_its_location() -> None:
    async def deep() -> None:
        await asyncio.get_running_loop().create_future()

    async def outer() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(deep(), name="digger")

    with pytest.raises(Stuck, match=r"(?s)every task waits.*\.outer \(test_virtual_time.*digger waits in .*deep \("):
        run(outer())


def test_an_endless_timer_loop_hits_the_limit() -> None:
    async def tick() -> None:
        for _ in range(1000):
            await asyncio.sleep(600)

    with pytest.raises(Stuck, match=r"(?s)3600 seconds of virtual time have passed.*tick \(test_virtual_time"):
        run(tick(), limit=3600)


def test_a_task_that_is_left_behind_is_an_error() -> None:
    left: list[asyncio.Task[None]] = []

    @virtual
    async def forgetful() -> None:
        left.append(asyncio.create_task(asyncio.sleep(5), name="forgotten"))

    with pytest.raises(AssertionError, match=r"still running after the test: \['forgotten'\]"):
        forgetful()


def test_what_is_left_at_the_end_is_cancelled_and_its_errors_are_reported() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(1)
            ended.append("task")

    async def fail() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            raise ValueError("in its end")

    async def generate() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            ended.append("generator")

    numbers = generate()

    async def main() -> list[dict[str, Any]]:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        tasks.extend([asyncio.create_task(wait()), asyncio.create_task(fail())])
        await anext(numbers)
        return reported

    tasks: list[asyncio.Task[None]] = []
    reported = run(main())
    assert ended == ["task", "generator"]
    assert [str(one["exception"]) for one in reported] == ["in its end"]
    assert tasks[0].cancelled()


def test_signals_are_handled_before_time_passes() -> None:
    async def main() -> float:
        received = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, received.set)
        os.kill(os.getpid(), signal.SIGUSR1)
        async with asyncio.timeout(10):
            await received.wait()
        return loop_time()

    assert run(main()) == 0.0


def test_a_virtual_function_takes_arguments_and_returns_its_result() -> None:
    @virtual
    async def add(one: int, *, other: int) -> int:
        return one + other

    assert add(1, other=2) == 3


@virtual
async def test_no_time_passes_while_a_thread_works() -> None:
    timer = asyncio.create_task(asyncio.sleep(3600))
    await rest()
    assert await asyncio.to_thread(slowly, 0.002, "done") == "done"
    assert loop_time() == 0.0
    await timer


def test_threads_deliver_results_in_the_order_of_submission() -> None:
    async def call() -> list[str]:
        results: list[str] = []

        async def one(name: str, pause: float) -> None:
            results.append(await asyncio.to_thread(slowly, pause, name))

        async def other() -> None:
            for number in range(3):
                results.append(str(number))
                await asyncio.sleep(0)

        await asyncio.gather(one("slow", 0.003), other(), one("fast", 0.0))
        return results

    assert {tuple(run(call())) for _ in range(5)} == {("0", "1", "slow", "fast", "2")}


@virtual
async def test_an_exception_in_a_thread_propagates() -> None:
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 / 0)


def test_a_custom_executor_is_supported() -> None:
    async def main(pool: ThreadPoolExecutor) -> float:
        return await asyncio.get_running_loop().run_in_executor(pool, math.sqrt, 4.0)

    with ThreadPoolExecutor(2) as pool:
        assert run(main(pool)) == 2.0


def test_a_thread_that_works_is_not_taken_for_one_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelset.testing.virtual_time._PATIENCE", 0.2)

    def works() -> int:
        until = time.thread_time() + 0.5  # processor time: however busy the machine is, it works for longer than that
        return sum(1 for _ in iter(lambda: time.thread_time() > until, True))

    async def main() -> int:
        return await asyncio.to_thread(works)

    assert run(main()) > 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells the state of a thread")
def test_a_thread_that_gets_no_processor_is_not_taken_for_one_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelset.testing.virtual_time._PATIENCE", 0.05)
    monkeypatch.setattr("levelset.testing.virtual_time.time.process_time", lambda: 0.0)  # as if it got none
    until = time.monotonic() + 0.3

    async def main() -> int:
        return await asyncio.to_thread(lambda: sum(1 for _ in iter(lambda: time.monotonic() > until, True)))

    assert run(main()) > 0


def test_a_thread_that_works_for_ever_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelset.testing.virtual_time._PATIENCE", 0.01)
    monkeypatch.setattr("levelset.testing.virtual_time._MAX_PATIENCE", 0.05)
    let_go = threading.Event()

    def polls() -> None:
        while not let_go.is_set():
            pass

    async def main() -> None:
        await asyncio.to_thread(polls)

    try:
        with pytest.raises(Stuck, match="polls"):
            run(main())
    finally:
        let_go.set()


def test_a_thread_that_waits_for_the_loop_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelset.testing.virtual_time._PATIENCE", 0.01)
    let_go = threading.Event()

    async def main() -> None:
        await asyncio.to_thread(waits_for_the_loop)

    def waits_for_the_loop() -> None:
        let_go.wait(5)

    try:
        with pytest.raises(Stuck, match="waits_for_the_loop"):
            run(main())
    finally:
        let_go.set()


@pytest.mark.parametrize(
    ("attempt", "what"),
    [
        (lambda: asyncio.open_connection("127.0.0.1", 6443), r"create_connection\(.*127.0.0.1.*6443.*\): a connection"),
        (lambda: asyncio.start_server(print, "127.0.0.1", 0), r"create_server\(.*\): a listening socket"),
        (lambda: asyncio.create_subprocess_exec("true"), r"subprocess_exec\(.*'true'\): a process"),
        (lambda: asyncio.create_subprocess_shell("true"), r"subprocess_shell\(.*\): a process"),
        (lambda: asyncio.get_running_loop().getaddrinfo("localhost", 80), r"getaddrinfo\('localhost'.*a name lookup"),
        (lambda: asyncio.get_running_loop().sock_recv(NO_SOCKET, 1), r"sock_recv\(.*: a socket"),
    ],
)
def test_real_io_is_refused_with_an_explanation(attempt, what: str) -> None:
    async def main() -> None:
        with pytest.raises(RealWork, match=what + r".* needs real time.* Either .*, or run this test in real time"):
            await attempt()

    run(main())


def test_sockets_can_be_allowed() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"hello")
    theirs.close()

    async def main() -> bytes:
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            return await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()

    assert run(main(), sockets=True) == b"hello"


async def wait_or_time_out(done: asyncio.Event) -> str:
    try:
        async with asyncio.timeout(5):
            await done.wait()
    except TimeoutError:
        return "the clock jumped"
    return "done"


def call_in(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    time.sleep(0.02)
    loop.call_soon_threadsafe(done.set)


def submit_to(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    async def finish() -> None:
        done.set()

    time.sleep(0.02)
    finishing = finish()
    with contextlib.closing(finishing):
        asyncio.run_coroutine_threadsafe(finishing, loop).result()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("work", [call_in, submit_to])
@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_of_ones_own_that_calls_into_the_loop_is_refused(work: Any, daemon: bool) -> None:
    started: list[threading.Thread] = []

    async def main() -> str:
        done = asyncio.Event()
        thread = threading.Thread(target=work, args=(asyncio.get_running_loop(), done), name="my thread", daemon=daemon)
        started.append(thread)
        thread.start()
        return await wait_or_time_out(done)

    with pytest.raises(RealWork, match=r"the thread 'my thread' calls into the loop.*asyncio.to_thread"):
        run(main())
    started[0].join()  # its own error belongs to this test, too


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_future_of_a_pool_that_calls_back_into_the_loop_is_refused() -> None:
    is_awaited = threading.Event()

    async def main(pool: ThreadPoolExecutor) -> str:
        job = asyncio.wrap_future(pool.submit(is_awaited.wait, 10.0))
        asyncio.get_running_loop().call_soon(is_awaited.set)
        return str(await asyncio.wait_for(job, 5))

    with ThreadPoolExecutor(1) as pool, pytest.raises(RealWork, match="calls into the loop"):
        run(main(pool))


def test_a_thread_that_does_not_concern_the_loop_is_let_alone() -> None:
    async def main() -> float:
        threading.Thread(target=time.sleep, args=(0.02,)).start()
        await asyncio.sleep(60)
        return asyncio.get_running_loop().time()

    assert run(main()) == 60.0


def test_a_thread_that_runs_for_long_is_refused_unless_it_is_a_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelset.testing.virtual_time._PATIENCE", 0.05)
    monkeypatch.setattr("levelset.testing.virtual_time._PATIENCE_DAEMON", 0.02)
    let_go = threading.Event()

    async def main(*, daemon: bool) -> str:
        threading.Thread(target=let_go.wait, name="my thread", daemon=daemon).start()
        return await wait_or_time_out(asyncio.Event())

    assert run(main(daemon=True)) == "the clock jumped"
    with pytest.raises(RealWork, match="the thread 'my thread' has been running for 0.05 real seconds"):
        run(main(daemon=False))
    let_go.set()


@virtual
async def test_work_in_a_thread_may_call_into_the_loop_while_the_loop_waits_for_it() -> None:
    loop, called = asyncio.get_running_loop(), asyncio.Event()
    await asyncio.to_thread(loop.call_soon_threadsafe, called.set)
    await called.wait()
    assert loop.time() == 0.0


def test_an_interrupt_in_a_task_is_raised_once_and_not_reported_again(caplog: pytest.LogCaptureFixture) -> None:
    async def interrupt() -> None:
        raise KeyboardInterrupt

    async def wait_for_it() -> None:
        await asyncio.wait([asyncio.create_task(interrupt())])

    with pytest.raises(KeyboardInterrupt):
        run(wait_for_it())
    gc.collect()
    assert caplog.records == []


def test_an_error_that_no_one_awaits_is_still_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("lost")

    async def wait_for_it() -> None:
        await asyncio.wait([asyncio.create_task(fail())])

    run(wait_for_it())
    gc.collect()
    assert "never retrieved" in caplog.text
