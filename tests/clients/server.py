"""`levelset serve` as a process: with TLS, data in an SQLite file, a kubeconfig, and a restart on the same port."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.clients.environments import ROOT

__all__ = ["Server"]

_PATIENCE = 20.0


class Server:
    """Runs the command in a folder; `server.log` there has the output of all its starts."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self._options = options
        self.kubeconfig = folder / "kubeconfig"
        self._data = folder / "data.db"
        self._log = folder / "server.log"
        self._port = _free_port()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts the command and waits until it says that it is ready."""
        command = [sys.executable, "-c", "from levelset.cli.serve import serve; serve()", "--data", str(self._data)]
        command += ["--port", str(self._port), "--kubeconfig", str(self.kubeconfig), *self._options]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        killer = threading.Timer(_PATIENCE, self._process.kill)
        killer.start()
        assert self._process.stdout is not None
        ready = any("ready in" in line for line in self._process.stdout)
        killer.cancel()
        if not ready:
            raise RuntimeError(f"the server did not start: {self._log.read_text()[-1000:]}")
        threading.Thread(target=self._process.stdout.read, daemon=True).start()

    def stop(self) -> None:
        """Terminates the server with a signal; it must exit by itself, with exit code 0."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        self._process = None
        if code != 0:
            raise RuntimeError(f"the server ended with exit code {code}: {self._log.read_text()[-1000:]}")

    def restart(self) -> None:
        self.stop()
        self.start()

    def errors(self) -> list[str]:
        """The tracebacks and errors in the server log."""
        lines = self._log.read_text().splitlines()
        return [line for line in lines if "Traceback" in line or "ERROR" in line or "Error:" in line]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
