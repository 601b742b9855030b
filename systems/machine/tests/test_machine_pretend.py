"""A machine that runs nothing behaves as a real one does, in virtual time."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from levelset.testing import virtual
from levelset_machine import (
    CannotStart,
    Command,
    ExecCheck,
    HttpCheck,
    Identity,
    LogStore,
    Pace,
    PretendMachine,
    Prober,
    Runner,
    StopFailed,
    Tally,
    TcpCheck,
    Verdict,
    keep_probing,
)
from systems.machine.tests.machines import read

START = datetime(2026, 1, 1, tzinfo=UTC)


def command(*argv: str, **env: str) -> Command:
    return Command(argv=argv, env=env)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_it_is_a_runner_and_a_prober() -> None:
    pretend = PretendMachine()
    runner: Runner = pretend
    prober: Prober = pretend
    assert (runner, prober) == (pretend, pretend)


@virtual
async def test_a_program_exits_as_it_was_told() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("job", exits=3, after=5.0, prints=["hello", (2.0, "working"), (9.0, "never")])
    run = pretend.start(command("job"), out=logs.open("job"))
    assert (pretend.running, await read(logs, "job")) == ([run], b"hello\n")
    ended = await run.wait()
    assert (ended.code, ended.at, now()) == (3, START + timedelta(seconds=5), 5.0)
    assert (pretend.running, pretend.runs) == ([], [run])
    assert await read(logs, "job", follow=True) == b"hello\nworking\n"


@virtual
async def test_a_program_may_exit_otherwise_each_time() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("job", exits=[1, 2, 0])
    codes = [(await pretend.start(command("job"), out=logs.open("job")).wait()).code for _ in range(4)]
    assert codes == [1, 2, 0, 0]


@virtual
async def test_a_program_without_an_end_runs_until_it_is_told_to_exit() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web")
    run = pretend.start(command("web"), out=logs.open("web"))
    await asyncio.sleep(10_000)
    assert run.ended is None
    pretend.exit(run, 7)
    pretend.exit(run, 8)
    assert (await run.wait()).code == 7


@virtual
async def test_the_whole_command_counts_before_its_first_word_and_both_before_the_rest() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program(["web", "--broken"], exits=1)
    pretend.program("web", exits=2)
    pretend.program("*", exits=3)
    words = [("web", "--broken"), ("web", "--fine"), ("other",)]
    codes = [(await pretend.start(command(*argv), out=logs.open("web")).wait()).code for argv in words]
    assert codes == [1, 2, 3]


@virtual
async def test_a_program_that_nobody_told_of_cannot_start() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    with pytest.raises(CannotStart, match=r"`pretend.program\('web'\)`"):
        pretend.start(command("web"), out=logs.open("web"))


@virtual
async def test_stopping_asks_and_then_kills() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web", stops_in=2.0)
    pretend.program("polite", stop_code=0)
    pretend.program("deaf", ignores_term=True)
    runs = [pretend.start(command(name), out=logs.open(name)) for name in ("web", "polite", "deaf")]
    for run in runs:
        await pretend.stop(run, grace=6.0)
    assert [run.ended and run.ended.code for run in runs] == [143, 0, 137]
    assert (now(), runs[2].signals, runs[0].signals) == (8.0, [15, 9], [15])


@virtual
async def test_a_program_that_needs_longer_than_the_grace_is_killed() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web", stops_in=30.0)
    run = pretend.start(command("web"), out=logs.open("web"))
    await pretend.stop(run, grace=6.0)
    assert ((await run.wait()).code, now()) == (137, 6.0)


@virtual
async def test_a_signal_works_although_nobody_waits_any_more() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web", stops_in=2.0)
    run = pretend.start(command("web"), out=logs.open("web"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await pretend.stop(run)
    assert ((await run.wait()).code, now()) == (143, 2.0)


@virtual
async def test_what_cannot_be_stopped_is_told() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web", unstoppable=True)
    run = pretend.start(command("web"), out=logs.open("web"))
    with pytest.raises(StopFailed) as failed:
        await pretend.stop(run, grace=6.0)
    assert (failed.value.left, now(), run.ended) == ((run.identity,), 15.0, None)


@virtual
async def test_runs_are_adopted_by_their_identity_until_they_end() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web")
    one, two = (pretend.start(command("web"), out=logs.open(key)) for key in ("one", "two"))
    assert one.identity != two.identity
    assert (pretend.adopt(one.identity), pretend.adopt(two.identity)) == (one, two)
    assert pretend.adopt(Identity(one.identity.pid, 99)) is None
    assert pretend.adopt(Identity(one.identity.pid, 0)) is None
    pretend.exit(one)
    assert pretend.adopt(one.identity) is None


@virtual
async def test_a_crash_takes_all_but_the_persistent_ones() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web")
    run = pretend.start(command("web"), out=logs.open("one"))
    lasting = pretend.start(command("web"), out=logs.open("two"), persistent=True)
    pretend.crash()
    assert (pretend.running, (await run.wait()).code) == ([lasting], 137)


@virtual
async def test_a_run_answers_at_its_address_when_it_is_ready() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web", ready_after=5.0, answers={"/healthz": 200, "/moved": 301})
    run = pretend.start(command("web", POD_IP="127.0.0.7"), out=logs.open("web"))

    async def ask(url: str) -> str:
        return (await pretend.probe(HttpCheck(f"http://127.0.0.7:80{url}"), timeout=1.0)).outcome

    assert [await ask(path) for path in ("/", "/healthz", "/moved")] == ["Failure", "Success", "Unknown"]
    assert (await pretend.probe(TcpCheck("127.0.0.7", 1), timeout=1.0)).outcome == "Failure"
    await asyncio.sleep(5.0)
    assert await ask("/") == "Success"
    assert (await pretend.probe(TcpCheck("127.0.0.7", 1), timeout=1.0)).outcome == "Success"
    assert (await pretend.probe(TcpCheck("127.0.0.8", 1), timeout=1.0)).outcome == "Failure"
    run.is_ready = False
    assert await ask("/") == "Failure"
    pretend.exit(run)
    assert "nobody listens" in (await pretend.probe(TcpCheck("127.0.0.7", 1), timeout=1.0)).reason


@virtual
async def test_two_runs_at_one_address_are_told_apart_by_their_ports() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web", ports=[80])
    pretend.program("sick", ports=[81], ready=False)
    for name in ("sick", "web"):
        pretend.start(command(name, POD_IP="127.0.0.7"), out=logs.open(name))
    found = [(await pretend.probe(TcpCheck("127.0.0.7", port), timeout=1.0)).outcome for port in (80, 81, 82)]
    assert found == ["Success", "Failure", "Failure"]


@virtual
async def test_who_hangs_takes_all_the_time_there_is() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web", hangs=True)
    pretend.start(command("web"), out=logs.open("web"))
    verdict = await pretend.probe(HttpCheck("https://127.0.0.1/"), timeout=3.0)
    assert (verdict, now()) == (Verdict("Failure", "127.0.0.1:443 did not answer within 3 s"), 3.0)


@virtual
async def test_a_command_is_a_check_by_its_exit_code() -> None:
    pretend = PretendMachine()
    pretend.program("check", exits=[0, 1], prints=["no disk"])
    pretend.program("slow", exits=0, after=2.0)
    names = ("check", "check", "slow", "unknown")
    found = [await pretend.probe(ExecCheck(command(name)), timeout=1.0) for name in names]
    assert [one.outcome for one in found] == ["Success", "Failure", "Failure", "Failure"]
    assert found[1].reason == "check ended with exit code 1: no disk"
    assert (pretend.runs, now()) == ([], 1.0)


@virtual
async def test_it_is_probed_again_and_again_in_virtual_time() -> None:
    pretend, logs = PretendMachine(), LogStore(None)
    pretend.program("web", ready_after=25.0)
    pretend.start(command("web", POD_IP="127.0.0.7"), out=logs.open("web"))
    heard = list[tuple[float, str]]()

    def tell(verdict: Verdict, tally: Tally) -> None:
        heard.append((now(), verdict.outcome))

    await keep_probing(pretend, TcpCheck("127.0.0.7", 80), Pace(period=10.0, until_success=True), tell)
    assert heard == [(0.0, "Failure"), (10.0, "Failure"), (20.0, "Failure"), (30.0, "Success")]


@virtual
async def test_the_time_of_day_may_be_somebody_elses() -> None:
    assert PretendMachine().now() == START
    assert PretendMachine(now=lambda: START + timedelta(days=1)).now() == START + timedelta(days=1)
