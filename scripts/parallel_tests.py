"""Runs the whole default suite: pytest processes with a large folder or some small ones, two for each core at a time.

Each process waits for others, for sockets and clocks at times, and another one works meanwhile. The longest folders
begin first, so that all end at about the same time. A process that passed is one line; of one that failed, the whole
output is printed. The last line counts the tests of all.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FIRST = [
    "tests/cli",
    "tests/testing/explore",
    "systems/dcp/tests",
    "tests/apiserver",
    "tests/project",
    "tests/runtime",
    "tests/apiserver/security",
    "systems/local/tests",
    "systems/omnia/tests",
    "tests/conformance",
    "tests/patch",
    "tests/storage",
    "tests/objects",
]
"""Folders that take longest, by processor time; some are part of another one, which then runs without them."""
TOGETHER = [
    "tests/clients",
    "tests/cluster",
    "tests/corpus",
    "tests/differential",
    "tests/e2e",
    "tests/envtest",
    "tests/etcd",
    "tests/fuzz",
    "tests/kinds",
    "tests/kube",
    "tests/operators",
    "tests/peers",
    "tests/re2",
    "tests/stories",
]
"""Folders with few tests, or with none that run by default: one process for all, since each takes a second to start."""
_NO_TESTS = 5
_SUMMARY = re.compile(r"^(?:=+ )?(.* in [0-9.]+s\b.*)$", re.MULTILINE)
_COUNTS = re.compile(r"(\d+) (passed|failed|error|skipped|xfailed)")


class Finished(NamedTuple):
    """A process whose tests have ended."""

    folders: str
    code: int
    seconds: float
    output: str

    @property
    def counts(self) -> Counter[str]:
        """The numbers of pytest's summary, after which a process may still complain of what it finds at its end."""
        found = _SUMMARY.findall(self.output) or [""]
        return Counter({word: int(number) for number, word in _COUNTS.findall(found[-1])})

    @property
    def has_failed(self) -> bool:
        """Whether a test failed, or nothing says that one was run."""
        return self.code not in {0, _NO_TESTS} or (self.code == 0 and not self.counts)

    @property
    def is_clean(self) -> bool:
        """Whether pytest's summary is the last that was printed."""
        return bool(_SUMMARY.fullmatch(self.output.rstrip().rpartition("\n")[2]))


def main() -> int:
    """Runs all parts, and returns the code of the process."""
    signal.signal(signal.SIGTERM, _end)
    began = time.monotonic()
    failed, counts = list[str](), Counter[str]()
    for finished in run(parts(), processes=2 * (os.cpu_count() or 1)):
        counts.update(finished.counts)
        if finished.has_failed:
            failed.append(finished.folders)
        if finished.has_failed or not finished.is_clean:
            print(finished.output)
        summary = ", ".join(f"{number} {word}" for word, number in finished.counts.items()) or "no test"
        elapsed = time.monotonic() - began
        print(f"{elapsed:6.1f} s  {finished.folders}: {summary} in {finished.seconds:.1f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(sorted(failed))}; the output of each is above", flush=True)
    print(f"{counts['passed']} passed, {counts['failed'] + counts['error']} failed")
    return 1 if failed else 0


def parts() -> list[list[str]]:
    """The folders that a process runs, for each of them: all folders, each once."""
    alone = set(_folders()) - {*FIRST, *TOGETHER}
    return [*([one] for one in FIRST), TOGETHER, *([one] for one in sorted(alone))]


def run(given: list[list[str]], *, processes: int) -> Iterator[Finished]:
    """Runs the tests of each part in a process of its own, and yields them as they end."""
    waiting, done = SimpleQueue[list[str]](), SimpleQueue[Finished]()
    running: set[subprocess.Popen[bytes]] = set()
    folders = [one for part in given for one in part]
    for part in given:
        waiting.put(part)

    def work() -> None:
        while True:
            try:
                part = waiting.get_nowait()
            except Empty:
                return
            done.put(_run_part(part, [inner for one in part for inner in _inner(one, folders)], running))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(processes)]
    for thread in threads:
        thread.start()
    try:
        for _ in given:
            yield done.get()
    finally:
        for process in list(running):
            process.terminate()


def _run_part(part: list[str], ignored: list[str], running: set[subprocess.Popen[bytes]]) -> Finished:
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        arguments = [sys.executable, "-m", "pytest", *part, *(f"--ignore={one}" for one in ignored)]
        process = subprocess.Popen(arguments, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        running.add(process)
        code = process.wait()
        running.discard(process)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Finished(" ".join(part), code, time.monotonic() - began, text)


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _inner(folder: str, folders: list[str]) -> list[str]:
    """The parts of a folder that run by themselves."""
    return [one for one in folders if one.startswith(f"{folder}/")]


def _folders() -> list[str]:
    found = [*ROOT.glob("tests/*/"), *ROOT.glob("systems/*/tests/")]
    return [str(path.relative_to(ROOT)) for path in found if path.name != "__pycache__" and path.is_dir()]


if __name__ == "__main__":
    sys.exit(main())
