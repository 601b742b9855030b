"""`levelset dev` reloads controllers when a file is saved; the server and its objects stay."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

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
    """The command and its output."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: Queue[str] = Queue()
        for stream in (process.stdout, process.stderr):
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line.rstrip("\n"))

    def until(self, text: str) -> list[str]:
        """The output up to a line with this text."""
        lines: list[str] = []
        while not lines or text not in lines[-1]:
            lines.append(self._lines.get(timeout=120))
        return lines


@contextmanager
def developing(folder: Path, target: str = "site.py:sites", *more: str) -> Generator[Process, None, None]:
    argv = ["levelset", "dev", target, "--every", "0.02", *more]
    command = [sys.executable, "-c", START.format(argv=argv)]
    environment = {**ENVIRONMENT, "LEVELSET_RUNTIME_DIR": str(folder / "runtime")}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Process(process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 0
        finally:
            process.kill()


def write(folder: Path, word: str, more: str = "") -> None:
    draft = folder / "draft"
    draft.write_text(CODE.format(word=word, more=more))
    draft.rename(folder / "site.py")


def test_saved_code_is_reloaded_and_changed_crds_are_applied_with_a_diff(tmp_path: Path) -> None:
    write(tmp_path, "first")
    with developing(tmp_path) as process:
        lines = process.until("running     first")
        assert "crd         sites.example.dev" in lines
        write(tmp_path, "second", "\n    replicas: int = 1")
        lines = process.until("running     second")
        assert "saved       site.py" in lines
        assert any("+" in line and "replicas:" in line for line in lines)
        assert not any("API server" in line for line in lines)  # the same server


def test_code_that_cannot_be_imported_keeps_the_previous_running(tmp_path: Path) -> None:
    problems = [("def broken(:\n", "line 1"), ("import nothing_like_it\n", "ModuleNotFoundError"), ("", "sites")]
    write(tmp_path, "first")
    with developing(tmp_path) as process:
        process.until("running     first")
        for number, (bad, word) in enumerate(problems):
            (tmp_path / "site.py").write_text(bad)
            lines = process.until("the previous controllers keep running")
            assert any(word in line for line in lines), word
            write(tmp_path, f"repaired-{number}")
            process.until(f"running     repaired-{number}")


def test_code_that_cannot_be_imported_at_the_start_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START.format(argv=["levelset", "dev", "site.py"])]
    result = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, check=False, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (2, "there is no file site.py\n")


def test_webhooks_are_served_and_reloaded_too(tmp_path: Path) -> None:
    more = "\nfrom levelset.runtime.webhook import defaults\n\n"
    more += "hooks = [defaults(Site, lambda one: one, name='fill.sites.example.dev')]"
    (tmp_path / "site.py").write_text(CODE.format(word="first", more="") + more)
    with developing(tmp_path, "site.py") as process:
        process.until("webhooks    fill.sites.example.dev")
        (tmp_path / "site.py").write_text(CODE.format(word="second", more="") + more.replace("fill", "change"))
        lines = process.until("webhooks    change.sites.example.dev")
        assert "saved       site.py" in lines


def test_a_missing_file_is_noticed_when_it_is_created(tmp_path: Path) -> None:
    write(tmp_path, "first")
    with developing(tmp_path) as process:
        process.until("running     first")
        (tmp_path / "site.py").write_text("import helpful_words\n" + CODE.format(word="second", more=""))
        process.until("the previous controllers keep running")
        (tmp_path / "helpful_words.py").write_text("")
        lines = process.until("running     second")
        assert "saved       helpful_words.py" in lines


def test_it_begins_as_the_other_commands_and_says_once_what_to_type_next(tmp_path: Path) -> None:
    write(tmp_path, "first")
    with developing(tmp_path, "site.py:sites", "--dashboard") as process:
        lines = process.until("get sites")
        assert [line.split()[0] for line in lines[:3]] == ["dashboard", "kubeconfig", "API"]
        at = next(number for number, line in enumerate(lines) if line.startswith("ready in "))
        assert lines[at - 1].startswith("running     first")
        assert lines[at].endswith(" ms. Type next, in another terminal:")
        assert lines[at + 1] == "  kubectl --kubeconfig levelset.kubeconfig get sites"
        write(tmp_path, "second")
        assert not any("ready in" in line for line in process.until("running     second"))


def test_the_dashboard_shows_one_generation_after_the_other(tmp_path: Path) -> None:
    write(tmp_path, "first")
    with developing(tmp_path, "site.py:sites", "--dashboard") as process:
        (line,) = [one for one in process.until("running     first") if one.startswith("dashboard ")]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        url = line.split()[1]
        page = opener.open(url)
        assert b"assets/boot.js" in page.read()
        status = f"{page.geturl().partition('?')[0]}api/status"
        assert [one["name"] for one in json.load(opener.open(status))["controllers"]] == ["first"]
        write(tmp_path, "second")
        process.until("running     second")
        assert [one["name"] for one in json.load(opener.open(status))["controllers"]] == ["second"]
        assert json.load(opener.open(status))["hasActions"] is False


def test_objects_in_a_file_stay_and_health_is_served_by_each_generation(tmp_path: Path) -> None:
    write(tmp_path, "first")
    options = ("site.py:sites", "--data", "site.db", "--durability", "normal", "--health", "0")
    with developing(tmp_path, *options) as process:
        lines = process.until("running     first")
        assert "crd         sites.example.dev" in lines
        write(tmp_path, "second")
        lines = process.until("running     second")
        (health,) = [line.split()[1] for line in lines if line.startswith("health ")]
        with urllib.request.urlopen(f"{health}/readyz") as response:
            assert response.read() == b"ok"
    with developing(tmp_path, *options) as process:
        assert "crd         sites.example.dev" not in process.until("running     second")


def test_the_port_and_the_version_of_the_server_can_be_chosen(tmp_path: Path) -> None:
    write(tmp_path, "first")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    options = ("--port", str(port), "--kubernetes-version", "1.32")
    with developing(tmp_path, "site.py:sites", *options) as process:
        (url,) = [line.split()[2] for line in process.until("running     first") if line.startswith("API server ")]
        assert url.endswith(f":{port}")
        with urllib.request.urlopen(f"{url}/version", context=ssl._create_unverified_context()) as response:
            assert b'"v1.32.0+levelset"' in response.read()


def test_an_address_of_health_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    write(tmp_path, "first")
    command = [sys.executable, "-c", START.format(argv=["levelset", "dev", "site.py", "--health", "here"])]
    result = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, check=False, capture_output=True, text=True)
    assert result.returncode == 2
    assert "--health here: must be a port such as 8081" in result.stderr
