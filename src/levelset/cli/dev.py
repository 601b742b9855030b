"""`levelset dev module:controllers`: runs controllers on a local API server, and reloads them when a file is saved.

The server and its objects stay. Changed CRDs are applied and their diff is printed. If the code cannot be imported, the
error is printed with file and line, and the previous controllers keep running.
"""

import asyncio
import difflib
import importlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import click

from levelset.cli.main import STARTED
from levelset.cli.output import durability_option, progress, reporting_errors, verbose_option, version_option
from levelset.cli.run import DashboardCommand, actions_option, dashboard_option
from levelset.cli.targets import LoadedTargets, load_controllers
from levelset.client.client import Client
from levelset.codegen.crd import crds_of
from levelset.errors import ConfigError, LevelsetError
from levelset.objects import Ref, Unstructured
from levelset.objects.yaml_codec import write_yaml
from levelset.runtime.manager import Manager
from levelset.runtime.manager.command_hints import HintSpelling
from levelset.runtime.manager.crd_install import CRD_GVK, is_established
from levelset.runtime.manager.local_server import open_local_server
from levelset.runtime.manager.logs import set_up_logs
from levelset.runtime.manager.ready_message import fact_lines, ready_lines
from levelset.runtime.manager.run import read_address, resource_name
from levelset.runtime.webhook import AdmissionHook

if TYPE_CHECKING:
    from levelset.dashboard import Dashboard

__all__ = [
    "DevOptions",
    "DevServer",
    "FileStamp",
    "apply_crds",
    "changed_files",
    "dev",
    "file_stamps",
    "modules_below",
    "python_files_below",
    "unload_modules",
]

_MANAGER: Final = "levelset"


async def apply_crds(client: Client, found: LoadedTargets) -> Sequence[str]:
    """Applies the CRDs of a project's kinds; returns the lines to print, with a diff of each changed CRD.

    Includes kinds of other projects that the controllers watch: nothing else installs them on this server.
    """
    lines: list[str] = []
    # In a thread, since it reads the classes' source files.
    for wanted in await asyncio.to_thread(crds_of, found.watched_kinds, hubs=found.hubs):
        ref: Ref[Unstructured] = Ref(CRD_GVK, wanted["metadata"]["name"])
        there = await client.find(ref)
        applied = await client.apply(wanted, force=True, manager=_MANAGER)
        await client.wait(ref, is_established)
        if there is None:
            lines.append(f"crd         {ref.name}")
        else:
            lines += _crd_diff(ref.name, there.tree, applied.tree)
    return lines


def _crd_diff(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old, new = (write_yaml([one["spec"]]).splitlines() for one in (before, after))
    lines = list(difflib.unified_diff(old, new, f"{name} (before)", f"{name} (after)", lineterm="", n=2))
    return [f"  {line}" for line in lines]


FileStamp = tuple[int, int]
"""The modification time of a file in nanoseconds, and its size."""

_SITE_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})


def modules_below(folder: Path, modules: Mapping[str, ModuleType] | None = None) -> dict[str, Path]:
    """The imported modules whose files are in or below a folder, by name; without site-packages."""
    found: dict[str, Path] = {}
    for name, module in dict(sys.modules if modules is None else modules).items():
        file = getattr(module, "__file__", None)
        if name == "__main__" or not file or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(folder) and not _SITE_PACKAGES.intersection(path.parts):
            found[name] = path
    return found


def python_files_below(folder: Path) -> list[Path]:
    """All Python files in or below a folder, imported or not; without hidden folders, caches and site-packages."""
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith((".", "_")) and one not in _SITE_PACKAGES]
        found += [Path(parent, one) for one in files if one.endswith(".py")]
    return found


def file_stamps(paths: Iterable[Path]) -> dict[Path, FileStamp]:
    """The modification time and size of each file; missing files are left out."""
    found: dict[Path, FileStamp] = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        found[path] = (status.st_mtime_ns, status.st_size)
    return found


def changed_files(before: Mapping[Path, FileStamp], after: Mapping[Path, FileStamp]) -> list[Path]:
    """The files that were written or created between two checks; a missing one may be in the middle of a save."""
    return sorted(path for path, stamp in after.items() if before.get(path) != stamp)


def unload_modules(folder: Path) -> dict[str, ModuleType]:
    """Removes all modules below a folder from sys.modules; returns them, so that they can be restored."""
    names = modules_below(folder)
    return {name: sys.modules.pop(name) for name in names}


_EVERY: Final = 0.25
_GRACE: Final = 5.0


@click.command(cls=DashboardCommand)
@click.argument("targets", metavar="MODULE:CONTROLLERS...", nargs=-1, required=True)
@click.option(
    "--data", default="memory", metavar="memory|PATH", help="Where objects are stored: in memory, or in a file."
)
@durability_option
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The server's port; any free one if 0.")
@version_option
@click.option("--kubeconfig", metavar="PATH", help="Where to write the kubeconfig for kubectl.")
@click.option("--health", metavar="ADDRESS", help="Serve /healthz, /readyz and /metrics at PORT or HOST:PORT.")
@dashboard_option(default="no")
@actions_option
@verbose_option
@click.option("--every", default=_EVERY, hidden=True, help="Seconds between two checks of the files.")
def dev(
    *,
    targets: tuple[str, ...],
    data: str,
    health: str | None,
    verbose: bool,
    every: float,
    dashboard: int | None,
    dashboard_actions: bool,
    **server: Any,
) -> None:
    """Runs controllers on a local API server and reloads them when a file is saved.

    The server and its objects stay; changed CRDs are applied and their diff is shown. While the code cannot be
    imported, the previous controllers keep running. A module alone means all Controllers and webhooks in it.

    Example: levelset dev website.py --data website.db
    """
    set_up_logs(None, verbose=verbose)
    with reporting_errors():
        options = DevOptions(
            server={**server, "data": None if data == "memory" else data},
            health=None if health is None else read_address(health),
            dashboard=0 if dashboard is None and dashboard_actions else dashboard,
            with_actions=dashboard_actions,
            every=every,
        )
        asyncio.run(DevServer(targets, Path.cwd(), options).run())


@dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    """The options of `levelset dev`: those of its server, the address of health checks, the port of the dashboard."""

    server: Mapping[str, Any] = field(default_factory=dict[str, Any])
    health: tuple[str, int] | None = None
    dashboard: int | None = None
    with_actions: bool = False
    every: float = _EVERY


class DevServer:
    """One API server, and one generation of controllers after the other."""

    def __init__(self, targets: Sequence[str], folder: Path, options: DevOptions) -> None:
        self._options = options
        self._page: Dashboard | None = None
        self._targets = targets
        self._folder = folder.resolve()
        self._stopped = asyncio.Event()
        self._is_broken = False
        self._kubeconfig: Path | None = None
        """The kubeconfig of the hints, until they were shown."""

    async def run(self) -> None:
        """Runs until SIGINT or SIGTERM; ConfigError if the code cannot be imported the first time."""
        found = await asyncio.to_thread(self._load)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopped.set)
        async with AsyncExitStack() as stack:
            local = await stack.enter_async_context(open_local_server(**self._options.server))
            client = await stack.enter_async_context(await Client.connect(local.server))
            facts = {"kubeconfig": str(local.kubeconfig), "url": local.server.url}
            for line in fact_lines({**await self._open_dashboard(stack), **facts}):
                click.echo(line)
            self._kubeconfig = local.kubeconfig
            while not self._stopped.is_set():
                await self._define(client, found)
                found = await self._generation(client, found)

    async def _open_dashboard(self, stack: AsyncExitStack) -> dict[str, str]:
        """Serves the dashboard, which shows one generation after the other; returns its address."""
        if self._options.dashboard is None:
            return {}
        from levelset.dashboard import open_dashboard  # noqa: PLC0415  # imported late: only this option needs it

        opened = open_dashboard(self._options.dashboard, actions=self._options.with_actions)
        self._page, url = await stack.enter_async_context(opened)
        return {"dashboard": url}

    async def _generation(self, client: Client, found: LoadedTargets) -> LoadedTargets:
        """Runs these controllers until the code was reloaded or a signal arrives; returns the next generation."""
        health = self._options.health
        manager = Manager(client, grace=_GRACE, admin=True, webhooks=found.webhooks, health=health)
        for one in found.controllers:
            manager.add(one)
        if self._page is not None:
            self._page.show_manager(manager)
        async with manager:
            found = await self._until_saved(manager, found)
        return found  # noqa: RET504  # a return inside the block is unreachable for mypy

    async def _until_saved(self, manager: Manager, found: LoadedTargets) -> LoadedTargets:
        names = ", ".join(one.name for one in found.controllers)
        hooks = ", ".join(one.name for one in found.webhooks if isinstance(one, AdmissionHook))
        with progress("waiting until all controllers are ready"):
            await manager.wait_started()
        before = await asyncio.to_thread(self._stamps)
        if "health" in manager.urls:
            click.echo(f"health      {manager.urls['health']}")
        if hooks:
            click.echo(f"webhooks    {hooks}")
        click.echo(f"running     {names}; reloads when a file is saved")
        self._show_hints(found)
        while not self._stopped.is_set():
            await self._pause()
            after = await asyncio.to_thread(self._stamps)
            saved = changed_files(before, after)
            before = {**before, **after}
            if not saved:
                continue
            click.echo(f"saved       {', '.join(self._shown(path) for path in saved)}")
            known = await asyncio.to_thread(self._stamps, everything=True)
            made = await asyncio.to_thread(self._reload)
            if made is not None:
                return made
            before = {**known, **before}  # watch all files from now on: the fix may be in a file that did not exist
        return found

    def _show_hints(self, found: LoadedTargets) -> None:
        """Says once how long the start took, and what to type next."""
        if self._kubeconfig is None:
            return
        first = [f"kubectl get {resource_name(found.controllers[0])}"] if found.controllers else []
        hints = HintSpelling(self._kubeconfig).spell([*first, "levelset status"])
        for line in ready_lines((time.perf_counter() - STARTED) * 1000, hints):
            click.echo(line)
        self._kubeconfig = None

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._options.every):
                await self._stopped.wait()
        except TimeoutError:
            return

    async def _define(self, client: Client, found: LoadedTargets) -> None:
        try:
            with progress("applying CRDs"):
                lines = await apply_crds(client, found)
            for line in lines:
                click.echo(line)
        except LevelsetError as error:
            click.echo(f"the CRDs were not changed: {error}", err=True)

    def _load(self) -> LoadedTargets:
        with progress("importing the code"):
            return load_controllers(self._targets)

    def _reload(self) -> LoadedTargets | None:
        """Imports the code again; None, with a message, if that fails."""
        old = self._unload()
        try:
            made = self._load()
        except ConfigError as error:
            self._unload()
            sys.modules.update(old)
            self._is_broken = True
            click.echo(f"{error}\nthe previous controllers keep running", err=True)
            return None
        self._is_broken = False
        return made

    def _unload(self) -> dict[str, ModuleType]:
        importlib.invalidate_caches()  # a file may be new since the last import
        folders = {self._folder, *(Path(one).resolve().parent for one in self._named_files())}
        return {name: module for folder in folders for name, module in unload_modules(folder).items()}

    def _stamps(self, *, everything: bool = False) -> Mapping[Path, FileStamp]:
        files = {*modules_below(self._folder).values(), *(Path(one).resolve() for one in self._named_files())}
        if everything or self._is_broken:
            files.update(python_files_below(self._folder))
        return file_stamps(files)

    def _named_files(self) -> list[str]:
        return [name for name in (one.partition(":")[0] for one in self._targets) if name.endswith(".py")]

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self._folder)) if path.is_relative_to(self._folder) else str(path)
