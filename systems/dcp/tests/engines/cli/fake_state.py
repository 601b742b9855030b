"""The state of the fake tool in a directory, and how it spawns programs.

The tool is started hundreds of times in a test run, so that it imports as little as possible.
"""
# ruff: noqa: PTH104, PTH110, PTH123

from __future__ import annotations

import fcntl
import marshal
import os
import sys
import time

from systems.dcp.tests.engines.cli import fake_output as output

__all__ = ["LAUNCH", "State", "ToolError"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any


# With `-c` all modules are imported, so that their bytecode is cached.
LAUNCH = (
    "-ISc",
    (
        "import sys; sys.path.insert(0, sys.argv[1]); from systems.dcp.tests.engines.cli.fake_tool import main; "
        "sys.exit(main(*sys.argv[2:4], sys.argv[4:]))"
    ),
)


class ToolError(Exception):
    """An error message of the tool with its exit code."""

    def __init__(self, args: str, code: int = 1) -> None:
        super().__init__(args)
        self.code = code


class Lock:
    """A file lock between runs of the tool."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._file = open(self._path, "w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


class State:
    """Objects by ID, in files of a directory."""

    def __init__(self, folder: Path | str, dialect: str) -> None:
        self.folder = str(folder)
        self.dialect = dialect

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def has(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def read(self, name: str) -> list[str]:
        if not self.has(name):
            return []
        with open(self.path(name)) as file:
            return file.read().splitlines()

    def append(self, name: str, line: str) -> None:
        with open(self.path(name), "a") as file:
            file.write(line + "\n")

    def record_call(self, args: list[str]) -> None:
        self.append("calls", repr(args))

    def fault(self, name: str) -> str:
        return "".join(self.read(name)) if self.has(name) else "\0"

    def locked(self) -> Lock:
        return Lock(self.path("lock"))

    def table(self, kind: str) -> dict[str, Any]:
        if not self.has(kind):
            return {}
        with open(self.path(kind), "rb") as file:
            found: dict[str, Any] = marshal.load(file)
            return found

    def put(self, kind: str, key: str, value: Any) -> None:
        self._write(kind, {**self.table(kind), key: value})

    def update(self, kind: str, key: str, **fields: Any) -> None:
        table = self.table(kind)
        if key in table:
            table[key].update(fields)
            self._write(kind, table)

    def drop(self, kind: str, key: str) -> None:
        table = self.table(kind)
        table.pop(key, None)
        self._write(kind, table)

    def find(self, kind: str, ref: str) -> Any:
        table = self.table(kind)
        return table.get(ref) or next((one for one in table.values() if one["name"] == ref), None)

    def get(self, kind: str, ref: str) -> Any:
        found = self.find(kind, ref)
        if found is None:
            raise ToolError(output.error_message(self.dialect, kind, ref), 1 if self.dialect == "docker" else 125)
        return found

    def new_id(self) -> str:
        return os.urandom(32).hex()

    def add_network(self, name: str, labels: dict[str, str], *, ipv6: bool = False) -> None:
        key = self.new_id()
        number = 17 + len(self.table("networks"))
        made = {"id": key, "name": name, "labels": labels, "ipv6": ipv6, "number": number, "created": output.now()}
        self.put("networks", key, made)

    def bind(self, held: Any) -> dict[str, list[dict[str, str]]]:
        """Allocates the ports of a container; fails if a requested one is taken."""
        taken = [
            place["HostPort"]
            for one in self.table("containers").values()
            if one["status"] == "running"
            for places in one.get("ports", {}).values()
            for place in places
        ]
        found: dict[str, list[dict[str, str]]] = {}
        for one in held["publish"]:
            address, host, inside = one.rsplit(":", 2)
            port = host or str(_free_port())
            if port in taken:
                raise ToolError(output.error_message(self.dialect, "port", port), 125)
            found.setdefault(inside, []).append({"HostIp": address, "HostPort": port})
        return found

    def emit(self, event: dict[str, Any]) -> None:
        self.append("events", f"{output.now()} {output.as_json(event)}")

    def events(self) -> list[str]:
        return self.read("events")

    def log(self, key: str) -> list[str]:
        return self.read(f"{key}.log")

    def wait_for(self, key: str, holds: Callable[[Any], bool], seconds: float = 10.0) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.find("containers", key)
            if found is None or holds(found):
                return True
            time.sleep(0.01)
        return False

    def spawn(self, key: str) -> None:
        table = self.table("containers")
        table[key].pop("pid", None)
        self._write("containers", table)
        args = [sys.executable, *LAUNCH, sys.path[0], self.dialect, self.folder, "supervise", key]
        nowhere = [(os.POSIX_SPAWN_OPEN, one, os.devnull, os.O_RDWR, 0) for one in range(3)]
        os.posix_spawn(sys.executable, args, os.environ, file_actions=nowhere, setsid=True)

    def _write(self, kind: str, table: dict[str, Any]) -> None:
        # Replaced atomically, because readers do not take the lock.
        path = self.path(f"{kind}.{os.getpid()}")
        with open(path, "wb") as file:
            marshal.dump(table, file)
        os.rename(path, self.path(kind))


def _free_port() -> int:
    import socket  # noqa: PLC0415  (slow to import)

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        found: int = one.getsockname()[1]
        return found
