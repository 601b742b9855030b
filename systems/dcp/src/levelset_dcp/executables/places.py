"""Where the logs of an Executable are: with the session, or, if it may outlive that, where later ones find them."""

from dataclasses import dataclass

from levelset_dcp.executables.world import Executables
from levelset_machine import LogSink, LogStore

__all__ = ["LogPlace", "log_place", "system_key"]


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The logs of what a program writes to its output and to its errors."""

    store: LogStore
    out: str
    err: str

    @property
    def files(self) -> tuple[str, str]:
        """Where they are; empty for those that are in memory."""
        found = [self.store.path(key) for key in (self.out, self.err)]
        return str(found[0] or ""), str(found[1] or "")

    def open(self) -> tuple[LogSink, LogSink]:
        """Somewhere to write both to."""
        return self.store.open(self.out), self.store.open(self.err)

    def remove(self) -> None:
        """Forgets both."""
        for key in (self.out, self.err):
            self.store.remove(key)


def log_place(world: Executables, name: str, uid: str, *, lasts: bool) -> LogPlace:
    """Where the logs of a program are; one that `lasts` is found by its name in every session, as its record is."""
    stem = name if lasts else uid
    return LogPlace(world.lasting if lasts and world.lasting else world.logs, f"{stem}_out", f"{stem}_err")


def system_key(uid: str) -> str:
    """The key of what was said of an Executable."""
    return f"{uid}_system"
