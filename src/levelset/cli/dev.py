"""`levelset dev module:controllers`: runs controllers on a server of their own, loaded anew when a file is saved.

The server and the objects stay. Definitions that have changed are applied, and the difference is printed. Code that
cannot be loaded is said so with file and line, and what ran before goes on.
"""

import asyncio
import importlib
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Final

import click

from levelset.cli.defining import define
from levelset.cli.gathering import Gathered, gather_controllers
from levelset.cli.progress import working
from levelset.cli.refusing import speaking
from levelset.cli.sources import Stamp, code_below, forget_modules, modules_below, stamps, touched
from levelset.client.client import Client
from levelset.errors import ConfigError, LevelsetError
from levelset.manager import Manager
from levelset.manager.locally import open_box
from levelset.manager.logs import set_up_logs
from levelset.webhook import Hook

__all__ = ["Workshop", "dev"]

_EVERY: Final = 0.25
_GRACE: Final = 5.0


@click.command()
@click.argument("targets", metavar="MODULE:CONTROLLERS...", nargs=-1, required=True)
@click.option("--kubeconfig", metavar="PATH", help="Where to write the kubeconfig for kubectl.")
@click.option("--every", default=_EVERY, hidden=True, help="Seconds between two looks at the files.")
def dev(targets: tuple[str, ...], kubeconfig: str | None, every: float) -> None:
    """Runs controllers on a server of their own, and loads them anew when a file is saved.

    Objects and the server stay; definitions that changed are applied, and the difference is shown. While the code
    cannot be loaded, what ran before goes on. A module alone means all Controllers and webhooks that it holds.

    Example: levelset dev website.py
    """
    set_up_logs(None)
    with speaking():
        asyncio.run(Workshop(targets, Path.cwd(), kubeconfig, every).run())


class Workshop:
    """One server, and one generation of controllers after the other."""

    def __init__(self, targets: Sequence[str], folder: Path, kubeconfig: str | None, every: float) -> None:
        self._targets = targets
        self._folder = folder.resolve()
        self._kubeconfig = kubeconfig
        self._every = every
        self._stopped = asyncio.Event()
        self._is_broken = False

    async def run(self) -> None:
        """Works until a signal comes; ConfigError if the code cannot be loaded the first time."""
        found = await asyncio.to_thread(self._load)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopped.set)
        async with AsyncExitStack() as stack:
            box = await stack.enter_async_context(open_box(self._kubeconfig))
            client = await stack.enter_async_context(await Client.connect(box.server))
            click.echo(f"url         {box.server.url}")
            click.echo(f"kubeconfig  {box.kubeconfig}")
            while not self._stopped.is_set():
                await self._define(client, found)
                found = await self._generation(client, found)

    async def _generation(self, client: Client, found: Gathered) -> Gathered:
        """Runs these until others are there, or the end has come."""
        manager = Manager(client, grace=_GRACE, admin=True, webhooks=found.webhooks)
        for one in found.controllers:
            manager.add(one)
        async with manager:
            found = await self._until_saved(manager, found)
        return found  # noqa: RET504  # inside of the block mypy sees a way around it

    async def _until_saved(self, manager: Manager, found: Gathered) -> Gathered:
        names = ", ".join(one.name for one in found.controllers)
        asked = ", ".join(one.name for one in found.webhooks if isinstance(one, Hook))
        with working("waits until all controllers run"):
            await manager.wait_started()
        before = await asyncio.to_thread(self._look)
        if asked:
            click.echo(f"asks        {asked}")
        click.echo(f"runs        {names}; save a file, and it is loaded anew")
        while not self._stopped.is_set():
            await self._pause()
            after = await asyncio.to_thread(self._look)
            saved = touched(before, after)
            before = {**before, **after}
            if not saved:
                continue
            click.echo(f"saved       {', '.join(self._shown(path) for path in saved)}")
            known = await asyncio.to_thread(self._look, everything=True)
            made = await asyncio.to_thread(self._load_anew)
            if made is not None:
                return made
            before = {**known, **before}  # from now on all files count, for one that was not there may mend it
        return found

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._every):
                await self._stopped.wait()
        except TimeoutError:
            return

    async def _define(self, client: Client, found: Gathered) -> None:
        try:
            with working("applies the definitions"):
                lines = await define(client, found)
            for line in lines:
                click.echo(line)
        except LevelsetError as error:
            click.echo(f"the definitions stay as they were: {error}", err=True)

    def _load(self) -> Gathered:
        with working("loads the code"):
            return gather_controllers(self._targets)

    def _load_anew(self) -> Gathered | None:
        """What the code is now; None, with a word about it, if it cannot be loaded."""
        old = self._forget()
        try:
            made = self._load()
        except ConfigError as error:
            self._forget()
            sys.modules.update(old)
            self._is_broken = True
            click.echo(f"{error}\nwhat ran before goes on", err=True)
            return None
        self._is_broken = False
        return made

    def _forget(self) -> dict[str, ModuleType]:
        importlib.invalidate_caches()  # a file may have come since somebody looked for it
        folders = {self._folder, *(Path(one).resolve().parent for one in self._named_files())}
        return {name: module for folder in folders for name, module in forget_modules(folder).items()}

    def _look(self, *, everything: bool = False) -> Mapping[Path, Stamp]:
        files = {*modules_below(self._folder).values(), *(Path(one).resolve() for one in self._named_files())}
        if everything or self._is_broken:
            files.update(code_below(self._folder))
        return stamps(files)

    def _named_files(self) -> list[str]:
        return [name for name in (one.partition(":")[0] for one in self._targets) if name.endswith(".py")]

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self._folder)) if path.is_relative_to(self._folder) else str(path)
