"""Three `levelset serve` processes on three members of etcd, each behind proxies that can cut it off."""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from levelset.client.client import open_transport
from levelset.client.transport.interface import Call, Response, Transport
from levelset.errors import LevelsetError, Unreachable
from tests.etcd.cutting_proxy import CuttingProxy
from tests.etcd.etcd_cluster import EtcdCluster, EtcdMember, free_ports

__all__ = ["Faults", "ReplicaProcess", "run_replicas"]

_START: Final = "from levelset.cli.main import main; main()"
_ENVIRONMENT: Final = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one),
}
_PATIENCE: Final = 60.0


class ReplicaProcess:
    """One API server; itself a transport to it, whichever process runs."""

    def __init__(self, folder: Path, number: int, port: int, proxies: list[CuttingProxy]) -> None:
        self.number = number
        self.port = port
        self.proxies = proxies
        self.kubeconfig = folder / f"replica-{number}.kubeconfig"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: Transport | None = None

    async def start(self) -> None:
        """Starts a process, and waits until it is ready."""
        options = ["--etcd", ",".join(proxy.url for proxy in self.proxies), "--port", str(self.port)]
        options += ["--secrets-key", "shared.key", "--kubeconfig", self.kubeconfig.name]
        self.kubeconfig.unlink(missing_ok=True)
        log = self._folder / f"replica-{self.number}.log"
        self._process = await asyncio.to_thread(self._launch, options, log)
        async with asyncio.timeout(_PATIENCE):
            while not self.kubeconfig.exists():
                if self._process.poll() is not None:
                    raise AssertionError(
                        f"the replica ended with {self._process.returncode}: {log.read_text()[-2000:]}"
                    )
                await asyncio.sleep(0.05)
        self._transport, _ = await open_transport(self.kubeconfig)

    def _launch(self, options: list[str], log: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _START, "serve", "-o", "json", *options]
        with log.open("ab") as errors:
            return subprocess.Popen(
                command, cwd=self._folder, env=_ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=errors
            )

    async def kill(self) -> None:
        """Ends the process at once, wherever it is."""
        transport, self._transport = self._transport, None
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await asyncio.to_thread(process.wait)
        if transport is not None:
            await transport.aclose()

    async def send(self, call: Call, /) -> Response:
        """As `Transport.send`."""
        if self._transport is None:
            raise Unreachable("the replica is down", is_sent=False)
        return await self._transport.send(call)

    async def aclose(self) -> None:
        """As `Transport.aclose`."""

    async def is_ready(self) -> bool:
        """Whether it says so."""
        try:
            return (await self.send(Call(method="GET", path="/readyz", timeout=5.0))).status == 200
        except LevelsetError:
            return False


@asynccontextmanager
async def run_replicas(cluster: EtcdCluster, folder: Path, number: int = 3) -> AsyncIterator[list[ReplicaProcess]]:
    """Running replicas, each with proxies of its own to all members."""
    async with AsyncExitStack() as stack:
        replicas: list[ReplicaProcess] = []
        for index, port in enumerate(free_ports(number)):
            proxies = [await stack.enter_async_context(CuttingProxy.run(member.port)) for member in cluster.members]
            replicas.append(ReplicaProcess(folder, index, port, proxies))
        try:
            for one in replicas:
                await one.start()
            yield replicas
        finally:
            for one in replicas:
                await one.kill()


class Faults:
    """Disturbs one thing after the other, and mends it: a replica or a member is killed, paused or cut off."""

    def __init__(self, cluster: EtcdCluster, replicas: list[ReplicaProcess], seed: object) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._dice = random.Random(f"{seed} faults")
        self.done: list[str] = []
        self.is_over = False
        """Ends it after the present fault, when that is mended."""

    async def run(self) -> None:
        """Goes on until it is over; each kind of fault once before any comes again."""
        kinds = [self._kill_replica, self._kill_member, self._kill_leader, self._cut, self._swallow, self._pause_member]
        while not self.is_over:
            self._dice.shuffle(kinds)
            for kind in kinds:
                await asyncio.sleep(self._dice.random())
                if self.is_over:
                    return
                await kind()
                self.done.append(kind.__name__.lstrip("_"))

    async def _kill_replica(self) -> None:
        replica = self._dice.choice(self._replicas)
        await replica.kill()
        await self._wait()
        await replica.start()

    async def _kill_member(self) -> None:
        await self._with_member(self._dice.choice(self._cluster.members), EtcdMember.kill, EtcdMember.start)

    async def _kill_leader(self) -> None:
        leader = await asyncio.to_thread(self._cluster.leader)
        await self._with_member(leader, EtcdMember.kill, EtcdMember.start)

    async def _pause_member(self) -> None:
        await self._with_member(self._dice.choice(self._cluster.members), EtcdMember.pause, EtcdMember.resume)

    async def _with_member(
        self, member: EtcdMember, begin: Callable[[EtcdMember], None], end: Callable[[EtcdMember], None]
    ) -> None:
        await asyncio.to_thread(begin, member)
        await self._wait()
        await asyncio.to_thread(end, member)
        await asyncio.to_thread(self._cluster.wait_ready)

    async def _cut(self) -> None:
        """A partition: a replica reaches no member, and its connections are refused."""
        proxies = self._dice.choice(self._replicas).proxies
        for proxy in proxies:
            proxy.refuses = True
            proxy.cut()
        await self._mended(proxies)

    async def _swallow(self) -> None:
        """A partition in one direction: what a replica sends arrives, and it gets no answers."""
        proxies = self._dice.choice(self._replicas).proxies
        for proxy in proxies:
            proxy.swallows = True
        await self._mended(proxies)

    async def _mended(self, proxies: list[CuttingProxy]) -> None:
        try:
            await self._wait()
        finally:
            for proxy in proxies:
                proxy.refuses = proxy.swallows = False
                proxy.cut()

    def _wait(self) -> Awaitable[None]:
        return asyncio.sleep(0.5 + 2 * self._dice.random())
