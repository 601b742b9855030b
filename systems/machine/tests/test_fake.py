"""FakeMachine behaves as a Machine does, in virtual time."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from levelset.testing import virtual
from levelset_machine import (
    CannotStart,
    Command,
    ExecCheck,
    FakeMachine,
    HttpCheck,
    Identity,
    LogStore,
    Prober,
    ProbeResult,
    ProbeSchedule,
    ProbeStatus,
    Runner,
    StopFailed,
    TcpCheck,
    probe_periodically,
)
from systems.machine.tests.support import read

START = datetime(2026, 1, 1, tzinfo=UTC)


def command(*argv: str, **env: str) -> Command:
    return Command(argv=argv, env=env)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_it_is_a_runner_and_a_prober() -> None:
    fake = FakeMachine()
    runner: Runner = fake
    prober: Prober = fake
    assert (runner, prober) == (fake, fake)


@virtual
async def test_a_program_exits_as_defined() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("job", exits=3, after=5.0, prints=["hello", (2.0, "working"), (9.0, "never")])
    run = fake.start(command("job"), out=logs.open("job"))
    assert (fake.running, await read(logs, "job")) == ([run], b"hello\n")
    ended = await run.wait()
    assert (ended.code, ended.at, now()) == (3, START + timedelta(seconds=5), 5.0)
    assert (fake.running, fake.runs) == ([], [run])
    assert await read(logs, "job", follow=True) == b"hello\nworking\n"


@virtual
async def test_a_program_may_have_an_exit_code_per_start() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("job", exits=[1, 2, 0])
    codes = [(await fake.start(command("job"), out=logs.open("job")).wait()).code for _ in range(4)]
    assert codes == [1, 2, 0, 0]


@virtual
async def test_a_program_without_an_exit_runs_until_exit_is_called() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web")
    run = fake.start(command("web"), out=logs.open("web"))
    await asyncio.sleep(10_000)
    assert run.ended is None
    fake.exit(run, 7)
    fake.exit(run, 8)
    assert (await run.wait()).code == 7


@virtual
async def test_the_whole_command_takes_precedence_over_its_first_word_and_both_over_the_rest() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program(["web", "--broken"], exits=1)
    fake.program("web", exits=2)
    fake.program("*", exits=3)
    commands = [("web", "--broken"), ("web", "--fine"), ("other",)]
    codes = [(await fake.start(command(*argv), out=logs.open("web")).wait()).code for argv in commands]
    assert codes == [1, 2, 3]


@virtual
async def test_an_undefined_program_cannot_start() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    with pytest.raises(CannotStart, match=r"`fake.program\('web'\)`"):
        fake.start(command("web"), out=logs.open("web"))


@virtual
async def test_stopping_sends_a_signal_and_then_kills() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web", stops_in=2.0)
    fake.program("clean", stop_code=0)
    fake.program("stubborn", ignores_term=True)
    runs = [fake.start(command(name), out=logs.open(name)) for name in ("web", "clean", "stubborn")]
    for run in runs:
        await fake.stop(run, grace=6.0)
    assert [run.ended and run.ended.code for run in runs] == [143, 0, 137]
    assert (now(), runs[2].signals, runs[0].signals) == (8.0, [15, 9], [15])


@virtual
async def test_a_program_that_exceeds_the_grace_period_is_killed() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web", stops_in=30.0)
    run = fake.start(command("web"), out=logs.open("web"))
    await fake.stop(run, grace=6.0)
    assert ((await run.wait()).code, now()) == (137, 6.0)


@virtual
async def test_a_signal_takes_effect_although_the_stop_was_cancelled() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web", stops_in=2.0)
    run = fake.start(command("web"), out=logs.open("web"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await fake.stop(run)
    assert ((await run.wait()).code, now()) == (143, 2.0)


@virtual
async def test_an_unstoppable_program_is_reported() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web", unstoppable=True)
    run = fake.start(command("web"), out=logs.open("web"))
    with pytest.raises(StopFailed) as failed:
        await fake.stop(run, grace=6.0)
    assert (failed.value.left, now(), run.ended) == ((run.identity,), 15.0, None)


@virtual
async def test_runs_are_adopted_by_their_identity_until_they_end() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web")
    one, two = (fake.start(command("web"), out=logs.open(key)) for key in ("one", "two"))
    assert one.identity != two.identity
    assert (fake.adopt(one.identity), fake.adopt(two.identity)) == (one, two)
    assert fake.adopt(Identity(one.identity.pid, 99)) is None
    assert fake.adopt(Identity(one.identity.pid, 0)) is None
    fake.exit(one)
    assert fake.adopt(one.identity) is None


@virtual
async def test_a_crash_ends_all_but_the_persistent_runs() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web")
    run = fake.start(command("web"), out=logs.open("one"))
    persistent = fake.start(command("web"), out=logs.open("two"), persistent=True)
    fake.crash()
    assert (fake.running, (await run.wait()).code) == ([persistent], 137)


@virtual
async def test_a_run_answers_at_its_address_when_it_is_ready() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web", ready_after=5.0, answers={"/healthz": 200, "/moved": 301})
    run = fake.start(command("web", POD_IP="127.0.0.7"), out=logs.open("web"))

    async def probe(url: str) -> str:
        return (await fake.probe(HttpCheck(f"http://127.0.0.7:80{url}"), timeout=1.0)).outcome

    assert [await probe(path) for path in ("/", "/healthz", "/moved")] == ["Failure", "Success", "Unknown"]
    assert (await fake.probe(TcpCheck("127.0.0.7", 1), timeout=1.0)).outcome == "Failure"
    await asyncio.sleep(5.0)
    assert await probe("/") == "Success"
    assert (await fake.probe(TcpCheck("127.0.0.7", 1), timeout=1.0)).outcome == "Success"
    assert (await fake.probe(TcpCheck("127.0.0.8", 1), timeout=1.0)).outcome == "Failure"
    run.is_ready = False
    assert await probe("/") == "Failure"
    fake.exit(run)
    assert "connection refused" in (await fake.probe(TcpCheck("127.0.0.7", 1), timeout=1.0)).reason


@virtual
async def test_two_runs_at_one_address_are_distinguished_by_their_ports() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web", ports=[80])
    fake.program("unready", ports=[81], ready=False)
    for name in ("unready", "web"):
        fake.start(command(name, POD_IP="127.0.0.7"), out=logs.open(name))
    found = [(await fake.probe(TcpCheck("127.0.0.7", port), timeout=1.0)).outcome for port in (80, 81, 82)]
    assert found == ["Success", "Failure", "Failure"]


@virtual
async def test_a_program_that_hangs_takes_the_whole_timeout() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web", hangs=True)
    fake.start(command("web"), out=logs.open("web"))
    result = await fake.probe(HttpCheck("https://127.0.0.1/"), timeout=3.0)
    assert (result, now()) == (ProbeResult("Failure", "127.0.0.1:443 did not answer within 3 s"), 3.0)


@virtual
async def test_an_exec_check_is_decided_by_the_exit_code() -> None:
    fake = FakeMachine()
    fake.program("check", exits=[0, 1], prints=["no disk"])
    fake.program("slow", exits=0, after=2.0)
    names = ("check", "check", "slow", "unknown")
    found = [await fake.probe(ExecCheck(command(name)), timeout=1.0) for name in names]
    assert [one.outcome for one in found] == ["Success", "Failure", "Failure", "Failure"]
    assert found[1].reason == "check ended with exit code 1: no disk"
    assert (fake.runs, now()) == ([], 1.0)


@virtual
async def test_it_is_probed_periodically_in_virtual_time() -> None:
    fake, logs = FakeMachine(), LogStore(None)
    fake.program("web", ready_after=25.0)
    fake.start(command("web", POD_IP="127.0.0.7"), out=logs.open("web"))
    results = list[tuple[float, str]]()

    def on_result(result: ProbeResult, status: ProbeStatus) -> None:
        results.append((now(), result.outcome))

    await probe_periodically(fake, TcpCheck("127.0.0.7", 80), ProbeSchedule(period=10.0, until_success=True), on_result)
    assert results == [(0.0, "Failure"), (10.0, "Failure"), (20.0, "Failure"), (30.0, "Success")]


@virtual
async def test_the_clock_can_be_replaced() -> None:
    assert FakeMachine().now() == START
    assert FakeMachine(now=lambda: START + timedelta(days=1)).now() == START + timedelta(days=1)
