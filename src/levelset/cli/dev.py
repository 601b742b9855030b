"""`levelset dev module:controllers`: runs controllers on a server of their own, loaded anew when a file is saved.

The server and the objects stay. Definitions that have changed are applied, and the difference is printed. Code that
cannot be loaded is said so with file and line, and what ran before goes on.

Has a server serve the kinds of a project as their classes are now, and tells what that changes.

The source files that a program was loaded from, and whether one has been saved since.
"""

import asyncio
import difflib
import importlib
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click

from levelset.cli.output import speaking, working
from levelset.cli.targets import Gathered, gather_controllers
from levelset.client.client import Client
from levelset.codegen.crd import crds_of
from levelset.errors import ConfigError, LevelsetError
from levelset.objects import Ref, Unstructured
from levelset.objects.yaml_codec import write_yaml
from levelset.runtime.manager import Manager
from levelset.runtime.manager.crd_install import DEFINITION, is_established
from levelset.runtime.manager.local_server import open_box
from levelset.runtime.manager.logs import set_up_logs
from levelset.runtime.webhook import Hook

__all__ = ["Stamp", "Workshop", "code_below", "define", "dev", "forget_modules", "modules_below", "stamps", "touched"]

_MANAGER: Final = "levelset"


async def define(client: Client, found: Gathered) -> Sequence[str]:
    """Applies the definitions that differ from what is served; gives the differences, line by line.

    Also those of kinds that are somebody else's: this server has nobody else.
    """
    told: list[str] = []
    # In a thread, since it reads the classes' source files.
    for wanted in await asyncio.to_thread(crds_of, found.followed_kinds, hubs=found.hubs):
        ref: Ref[Unstructured] = Ref(DEFINITION, wanted["metadata"]["name"])
        there = await client.find(ref)
        applied = await client.apply(wanted, force=True, manager=_MANAGER)
        await client.wait(ref, is_established)
        if there is None:
            told.append(f"serves      {ref.name}")
        else:
            told += _difference(ref.name, there.tree, applied.tree)
    return told


def _difference(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old, new = (write_yaml([one["spec"]]).splitlines() for one in (before, after))
    lines = list(difflib.unified_diff(old, new, f"{name} (served before)", f"{name} (as it is now)", lineterm="", n=2))
    return [f"  {line}" for line in lines]


Stamp = tuple[int, int]
"""When a file was written, in nanoseconds, and its size."""

_FOREIGN: Final = frozenset({"site-packages", "dist-packages"})


def modules_below(folder: Path, modules: Mapping[str, ModuleType] | None = None) -> dict[str, Path]:
    """The loaded modules whose files are in a folder or below it, by name; what was installed there is not meant."""
    found: dict[str, Path] = {}
    for name, module in dict(sys.modules if modules is None else modules).items():
        file = getattr(module, "__file__", None)
        if name == "__main__" or not file or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(folder) and not _FOREIGN.intersection(path.parts):
            found[name] = path
    return found


def code_below(folder: Path) -> list[Path]:
    """All Python files in a folder and below it, loaded or not; what is hidden, installed or cached is not meant."""
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith((".", "_")) and one not in _FOREIGN]
        found += [Path(place, one) for one in files if one.endswith(".py")]
    return found


def stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """When each file was written, and its size; a file that is not there just now has none."""
    found: dict[Path, Stamp] = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        found[path] = (status.st_mtime_ns, status.st_size)
    return found


def touched(before: Mapping[Path, Stamp], after: Mapping[Path, Stamp]) -> list[Path]:
    """The files that were written or made between two looks; one that vanished may be in the middle of being saved."""
    return sorted(path for path, stamp in after.items() if before.get(path) != stamp)


def forget_modules(folder: Path) -> dict[str, ModuleType]:
    """Has all modules below a folder be imported anew the next time; gives those that were there, to put them back."""
    names = modules_below(folder)
    return {name: sys.modules.pop(name) for name in names}


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
