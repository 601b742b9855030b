"""Executables with real processes: terminals, log files, monitored processes and probes."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from levelset import Client, MergePatch, Ref, open_local
from levelset.errors import BadRequest
from levelset.objects import MicroTime
from levelset.runtime.manager import LocalSystem
from levelset_dcp.executables.monitor_process import began, monitor
from levelset_dcp.kinds import (
    AmbientEnvironment,
    EnvVar,
    Executable,
    ExecutableProbe,
    HealthProbe,
    HttpProbe,
    ProbeProgram,
    ProbeSchedule,
    ProbeTemplate,
    Service,
    ServiceSpec,
    Terminal,
)
from levelset_dcp.system import Options, dcp_system
from levelset_machine import Identity, LogRotation, identity_of, is_alive
from systems.dcp.tests.support.executables import exe
from systems.dcp.tests.support.sessions import WITHIN, identity_of_process, lines_of, until_state, wait_for_exit
from systems.machine.tests.terminal_client import TerminalClient

ONE = Ref(Executable, "one")


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalSystem]:
    options = Options(folder=tmp_path / "s", persistent_logs=tmp_path / "lasting", grace=0.5)
    async with open_local(dcp_system(options)) as opened:
        yield opened


async def test_the_status_has_the_paths_of_the_log_files(local: LocalSystem) -> None:
    await local.client.create(exe("/bin/sh", args=("-c", "echo out; echo err >&2")))
    found = (await until_state(local.client, "one", "Finished")).status
    assert found is not None
    text = await asyncio.to_thread(Path(found.std_out_file).read_text)
    assert text.startswith("1 ")
    assert text.endswith("Z out\n")
    assert (await asyncio.to_thread(Path(found.std_err_file).read_text)).endswith("Z err\n")
    await local.client.delete(ONE)
    await local.client.wait_gone(ONE, within=WITHIN)
    assert not await asyncio.to_thread(Path(found.std_out_file).exists)


BATCHES = """
import pathlib, sys, time
folder, number = pathlib.Path(sys.argv[1]), 0
for batch in range(20):
    while not (folder / str(batch)).exists():
        time.sleep(0.001)
    for _ in range(100):
        number += 1
        print(f"line {number:05d}", flush=True)
"""


async def test_a_log_is_followed_through_its_rotations_and_removed_with_them(tmp_path: Path) -> None:
    rotation, gates = LogRotation(size=5000, files=3), tmp_path / "gates"
    await asyncio.to_thread(gates.mkdir)
    async with open_local(dcp_system(Options(folder=tmp_path / "s", grace=0.5, log_rotation=rotation))) as local:
        await local.client.create(exe(sys.executable, args=("-I", "-S", "-c", BATCHES, str(gates))))
        await until_state(local.client, "one", "Running")
        found = list[str]()
        async with asyncio.timeout(WITHIN), local.client.logs(ONE, follow=True) as lines:
            await asyncio.to_thread((gates / "0").touch)
            async for line in lines:
                found.append(line.rstrip())
                if len(found) % 100 == 0:  # the next lines are printed when these were read
                    await asyncio.to_thread((gates / str(len(found) // 100)).touch)
        assert found == [f"line {number:05d}" for number in range(1, 2001)]
        logs = tmp_path / "s" / "logs"
        assert await asyncio.to_thread(lambda: sum(one.stat().st_size for one in logs.glob("*_out*"))) <= rotation.total
        await local.client.delete(ONE)
        await local.client.wait_gone(ONE, within=WITHIN)
        assert await asyncio.to_thread(lambda: [*logs.iterdir()]) == []


FLOOD = """
import pathlib, sys, time
print("line 000001", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.001)
for number in range(2, 100_001):
    print(f"line {number:06d}")
"""


async def test_a_client_that_reads_more_slowly_than_the_program_writes_sees_what_it_missed(tmp_path: Path) -> None:
    gate, rotation = tmp_path / "gate", LogRotation(size=5000, files=3)
    async with open_local(dcp_system(Options(folder=tmp_path / "s", grace=0.5, log_rotation=rotation))) as local:
        await local.client.create(exe(sys.executable, args=("-I", "-S", "-c", FLOOD, str(gate))))
        await until_state(local.client, "one", "Running")
        async with asyncio.timeout(WITHIN), local.client.logs(ONE, follow=True) as lines:
            assert await anext(lines) == "line 000001"
            await asyncio.to_thread(gate.touch)
            await until_state(local.client, "one", "Finished")
            found = [line async for line in lines]
    number = 1
    for line in found:
        if dropped := re.fullmatch(r"\[log rotation: (\d+) lines were dropped before they could be read\]", line):
            number += int(dropped[1])
        else:
            number += 1
            assert line == f"line {number:06d}"
    assert (number, any("dropped" in line for line in found)) == (100_000, True)


async def test_a_terminal_is_reached_through_its_socket(local: LocalSystem, tmp_path: Path) -> None:
    program = 'stty size; read line; echo "got $line"; exit 5'
    await local.client.create(exe("/bin/sh", args=("-c", program), terminal=Terminal(cols=100, rows=30)))
    found = (await until_state(local.client, "one", "Running")).status
    assert found is not None
    client = await TerminalClient.connect(found.terminal_socket_path)
    await client.read_until(b"30 100")
    client.type(b"hello\n")
    assert b"got hello" in await client.read_to_end()
    assert (client.size, client.exit_code) == ((100, 30), 5)
    done = (await until_state(local.client, "one", "Finished")).status
    assert done is not None
    assert (done.exit_code, done.terminal_socket_path) == (5, "")
    with pytest.raises(BadRequest, match="terminal"):
        await lines_of(local.client, "one")


async def test_a_terminal_can_connect_to_a_given_socket(local: LocalSystem, tmp_path: Path) -> None:
    shown: asyncio.Queue[bytes | int | None] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = TerminalClient(reader, writer)
        await shown.put(await client.read_until(b"$ "))
        client.type(b"yes\n")
        await shown.put(await client.read_to_end())
        await shown.put(client.exit_code)

    path = str(tmp_path / "theirs")
    async with await asyncio.start_unix_server(serve, path):
        wanted = Terminal(uds_path=path, socket_mode="connect")
        program = 'printf "$ "; read line; echo "got $line"; exit 9'
        await local.client.create(exe("/bin/sh", args=("-c", program), terminal=wanted))
        async with asyncio.timeout(WITHIN):
            assert await shown.get() == b"$ "
            assert await shown.get() == b"yes\r\ngot yes\r\n"
            assert await shown.get() == 9
        await until_state(local.client, "one", "Finished")


async def test_a_terminal_on_a_missing_socket_fails(local: LocalSystem, tmp_path: Path) -> None:
    wanted = Terminal(uds_path=str(tmp_path / "missing"), socket_mode="connect")
    await local.client.create(exe("/bin/sh", terminal=wanted))
    found = (await until_state(local.client, "one", "FailedToStart")).status
    assert found is not None
    assert "cannot open the terminal" in found.message


async def test_a_persistent_program_stops_with_its_monitored_process(local: LocalSystem) -> None:
    parent = await asyncio.create_subprocess_exec("/bin/sleep", "1000")
    started = identity_of(parent.pid)
    assert started is not None
    seconds = await asyncio.to_thread(began, started)
    at = MicroTime.of(datetime.fromtimestamp(seconds or 0, UTC))
    program = exe("/bin/sleep", args=("1000",), mode="persistent", monitor_pid=parent.pid, monitor_timestamp=at)
    try:
        await local.client.create(program)
        child = identity_of_process(await until_state(local.client, "one", "Running"))
        await local.client.delete(ONE)
        await local.client.wait_gone(ONE, within=WITHIN)
        assert is_alive(child)
    finally:
        parent.kill()
        await parent.wait()
    await wait_for_exit(child, within=WITHIN)


async def test_a_monitored_process_that_is_dead_stops_the_program_at_once() -> None:
    child = await asyncio.create_subprocess_exec("/bin/sleep", "1000")
    identity = identity_of(child.pid)
    assert identity is not None
    async with asyncio.timeout(WITHIN):
        waiting = asyncio.ensure_future(child.wait())
        await monitor(identity, 2**22, 0.0)
        await waiting
    other = await asyncio.create_subprocess_exec("/bin/sleep", "1000")
    try:
        await monitor(Identity(other.pid, 1), 2**22, 0.0)
        assert other.returncode is None, "the start time identifies another process"
    finally:
        other.kill()
        await other.wait()


SERVER = """
import http.server, os
http.server.test(http.server.SimpleHTTPRequestHandler, port=int(os.environ["PORT"]), bind="127.0.0.1")
"""
EVERY = ProbeSchedule(interval="50ms", timeout="5s")


async def until_healthy(client: Client) -> Executable:
    return await client.wait(ONE, lambda one: bool(one.status and one.status.health_status == "Healthy"), within=WITHIN)


async def test_probes_use_the_allocated_port_and_the_variables_of_the_program(local: LocalSystem) -> None:
    inheriting = ProbeProgram(executable_path="/bin/sh", args=("-c", 'test "$WORD" = "for one"'))
    program = ExecutableProbe(executable_template=ProbeTemplate(spec=inheriting))
    alone = ProbeProgram(
        executable_path="/bin/sh",
        args=("-c", 'test -z "$WORD" && test "$OWN" = one'),
        env=(EnvVar(name="OWN", value="{{ .Name }}"),),
        ambient_environment=AmbientEnvironment(behavior="DoNotInherit"),
    )
    apart = ExecutableProbe(executable_template=ProbeTemplate(spec=alone))
    once = ProbeSchedule(interval="50ms", kind="UntilSuccess")
    probes = (
        HealthProbe(name="exec", type="Executable", schedule=once, executable_probe=program),
        HealthProbe(name="apart", type="Executable", schedule=once, executable_probe=apart),
        HealthProbe(
            name="http",
            type="HTTP",
            schedule=EVERY,
            http_probe=HttpProbe(url='http://localhost:{{ portForServing "web" }}/'),
        ),
    )
    env = (EnvVar(name="PORT", value='{{ portForServing "web" }}'), EnvVar(name="WORD", value="for {{ .Name }}"))
    producer = {"service-producer": '[{"serviceName": "web"}]'}
    await local.client.create(exe(sys.executable, "one", producer, args=("-c", SERVER), env=env, health_probes=probes))
    await local.client.create(Service.new("web", ServiceSpec()))
    found = (await until_healthy(local.client)).status
    assert found is not None
    outcomes = {one.probe_name: one.outcome for one in found.health_probe_results}
    assert outcomes == {"exec": "Success", "apart": "Success", "http": "Success"}
    await local.client.patch(ONE, MergePatch({"spec": {"stop": True}}))
    await until_state(local.client, "one", "Finished")
