"""`levelset dev` loads controllers anew when a file is saved; the server, and what is on it, stays."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

START = "import sys; sys.argv = {argv!r}; import levelset.cli; levelset.cli.main()"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one),
    "PYTHONDONTWRITEBYTECODE": "1",
}
CODE = """
from levelset import Controller, Resource, Spec

class SiteSpec(Spec):
    image: str{more}

class Site(Resource[SiteSpec, None], api="example.dev/v1"):
    '''A site.'''

async def reconcile(site, ctx):
    print("{word}", site.name, flush=True)

sites = Controller(Site, reconcile, name="{word}")
"""


class Process:
    """The command, and what it says."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: Queue[str] = Queue()
        for stream in (process.stdout, process.stderr):
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line.rstrip("\n"))

    def until(self, text: str) -> list[str]:
        """All that it says up to a line with this text."""
        said: list[str] = []
        while not said or text not in said[-1]:
            said.append(self._lines.get(timeout=15))
        return said


@contextmanager
def developing(folder: Path, target: str = "site.py:sites") -> Generator[Process, None, None]:
    argv = ["levelset", "dev", target, "--every", "0.02"]
    command = [sys.executable, "-c", START.format(argv=argv)]
    environment = {**ENVIRONMENT, "LEVELSET_RUNTIME_DIR": str(folder / "runtime")}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Process(process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=15) == 0
        finally:
            process.kill()


def write(folder: Path, word: str, more: str = "") -> None:
    draft = folder / "draft"
    draft.write_text(CODE.format(word=word, more=more))
    draft.rename(folder / "site.py")


def test_code_that_was_saved_runs_and_definitions_that_changed_are_applied_with_a_difference(tmp_path: Path) -> None:
    write(tmp_path, "first")
    with developing(tmp_path) as process:
        said = process.until("runs        first")
        assert "serves      sites.example.dev" in said
        write(tmp_path, "second", "\n    replicas: int = 1")
        said = process.until("runs        second")
        assert "saved       site.py" in said
        assert any("+" in line and "replicas:" in line for line in said)
        assert not any("url" in line for line in said)  # the same server


@pytest.mark.parametrize(
    ("bad", "word"), [("def broken(:\n", "line 1"), ("import nothing_like_it\n", "ModuleNotFoundError"), ("", "sites")]
)
def test_code_that_cannot_be_loaded_keeps_the_old_running(tmp_path: Path, bad: str, word: str) -> None:
    write(tmp_path, "first")
    with developing(tmp_path) as process:
        process.until("runs        first")
        (tmp_path / "site.py").write_text(bad)
        said = process.until("what ran before goes on")
        assert any(word in line for line in said)
        write(tmp_path, "third")
        process.until("runs        third")


def test_code_that_cannot_be_loaded_at_first_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START.format(argv=["levelset", "dev", "site.py"])]
    told = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, check=False, capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (2, "there is no file site.py\n")


def test_webhooks_are_asked_and_loaded_anew_too(tmp_path: Path) -> None:
    more = "\nfrom levelset.runtime.webhook import defaults\n\n"
    more += "hooks = [defaults(Site, lambda one: one, name='fill.sites.example.dev')]"
    (tmp_path / "site.py").write_text(CODE.format(word="first", more="") + more)
    with developing(tmp_path, "site.py") as process:
        process.until("asks        fill.sites.example.dev")
        (tmp_path / "site.py").write_text(CODE.format(word="second", more="") + more.replace("fill", "change"))
        said = process.until("asks        change.sites.example.dev")
        assert "saved       site.py" in said


def test_a_file_that_was_missing_is_noticed_when_it_comes(tmp_path: Path) -> None:
    write(tmp_path, "first")
    with developing(tmp_path) as process:
        process.until("runs        first")
        (tmp_path / "site.py").write_text("import helpful_words\n" + CODE.format(word="second", more=""))
        process.until("what ran before goes on")
        (tmp_path / "helpful_words.py").write_text("")
        said = process.until("runs        second")
        assert "saved       helpful_words.py" in said
