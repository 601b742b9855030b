"""What a cluster for tests stands on: a server inside the test or a real one, its clock, and the processes at work."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from levelset.client.client import Client
from levelset.client.kinds import View
from levelset.manager.definitions import install_definitions
from levelset.objects.identity import GroupVersionKind
from levelset.testing.clock import VirtualLoop
from levelset.testing.defining import define_inside
from levelset.testing.inside import Inside
from levelset.testing.process import Process
from levelset.testing.refusing import RealTime
from levelset.testing.timelines import Timelines

__all__ = ["Stage"]


@dataclass(eq=False)
class Stage:
    """Shared by everybody who takes part in a test."""

    where: Any
    """What processes connect to: the server inside, or the path of a kubeconfig."""
    control: Client
    """A client for the framework's own business: no fault hits it."""
    now: Callable[[], datetime]
    loop: VirtualLoop | None = None
    """The loop whose time jumps; None if time is real."""
    inside: Inside | None = None
    """The server of this test; None for a real cluster."""
    processes: list[Process] = field(default_factory=list[Process])
    timelines: Timelines = field(default_factory=Timelines)
    defined: dict[GroupVersionKind, None] = field(default_factory=dict[GroupVersionKind, None])
    """The kinds that are known to be served."""
    installed: list[str] = field(default_factory=list[str])
    """The definitions that were made for this test."""

    @property
    def alive(self) -> list[Process]:
        """The processes that run now."""
        return [one for one in self.processes if one.is_alive]

    async def define(self, views: Iterable[View[Any]]) -> None:
        """Has the server serve these kinds, as far as it does not yet."""
        several = {one.gvk: one for one in reversed(tuple(views)) if one.definition is not None}
        missing = [one for gvk, one in reversed(several.items()) if gvk not in self.defined]
        if not missing:
            return
        if self.inside is not None:
            self.installed += await define_inside(self.inside, self.control, missing)
        else:
            self.installed += await install_definitions(self.control, missing)
        self.defined.update((one.gvk, None) for one in missing)

    def virtual(self, what: str) -> VirtualLoop:
        """The loop whose time jumps; RealTime says that there is none."""
        if self.loop is None:
            where = "on a real cluster" if isinstance(self.where, str | Path) else "here"
            raise RealTime(f"{what} needs virtual time, and time is real {where}; wait with until(...) instead")
        return self.loop
