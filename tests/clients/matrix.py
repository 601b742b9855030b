"""Runs third-party clients against `levelset serve` and prints a table of the verbs that work with each.

Each client has a script beside this file and, if it is a Python package, an environment of its own under
`.venv-clients`. Each gets a fresh server over TLS with its data in an SQLite file, so that it can be restarted.
`python -m tests.clients.matrix [NAME ...]` runs all clients, or those whose name contains one of the words.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from scripts.run_summary import run_summary

from tests.clients.builds import find_built
from tests.clients.environments import ROOT, Client, find_clients
from tests.clients.server import Server

PATIENCE = 180.0
VERBS = (
    *(
        "create",
        "get",
        "list",
        "describe",
        "watch",
        "apply",
        "apply-ssa",
        "patch",
        "status",
        "scale",
        "explain",
        "wait",
        "events",
        "generated",
    ),
    *("delete-background", "delete-foreground", "delete-orphan", "delete-all", "finalizer", "timer"),
    *("install", "upgrade", "refused", "history", "rollback", "uninstall"),
    *("roles", "leader", "restart", "end", "fuzz"),
)


@dataclass
class Outcome:
    """The result of a client: a status and a remark for each verb it tried."""

    client: str
    verbs: dict[str, tuple[str, str]] = field(default_factory=dict)
    failure: str | None = None
    skipped: str | None = None

    @property
    def is_good(self) -> bool:
        return self.failure is None and all(word != "FAILED" for word, _ in self.verbs.values())


def main(words: list[str]) -> int:
    began = time.monotonic()
    outcomes: list[Outcome] = []
    for client in chain(find_clients(words), find_built(words)):
        print(f"{client.name} ...", file=sys.stderr, flush=True)
        outcomes.append(run(client) if client.command else Outcome(client.name, {}, client.failure, client.absent))
    skipped = [f"{one.client}: {one.skipped}" for one in outcomes if one.skipped]
    print("\n".join([*table(outcomes), *run_summary(began, skipped)]))
    return 0 if all(outcome.is_good for outcome in outcomes) and any(outcome.verbs for outcome in outcomes) else 1


def run(client: Client) -> Outcome:
    """Runs the script of one client against a server of its own."""
    outcome = Outcome(client.name)
    folder = Path(tempfile.mkdtemp(prefix="levelset-clients-"))
    try:
        with Server(folder, client.options) as server, (folder / "client.log").open("w") as log:
            environment = {"KUBECONFIG": str(server.kubeconfig), "PYTHONPATH": str(ROOT), "HOME": str(folder)}
            environment["PATH"] = os.environ["PATH"]
            environment["PYTHONUNBUFFERED"] = "1"
            process = subprocess.Popen(
                client.command, cwd=ROOT, env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
            converse(process, server, outcome)
        if process.returncode != 0:
            outcome.failure = f"exit code {process.returncode}: {last_line(folder / 'client.log')}"
        if errors := server.errors():
            outcome.failure = f"the server logged: {errors[0]}"
    finally:
        if outcome.is_good:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"{client.name}: see {folder}", file=sys.stderr)
    return outcome


def converse(process: "subprocess.Popen[str]", server: Server, outcome: Outcome) -> None:
    """Reads the output of the script until it ends, and restarts the server when the script requests it."""
    assert process.stdin is not None
    assert process.stdout is not None
    killer = threading.Timer(PATIENCE, process.kill)
    killer.start()
    try:
        for line in process.stdout:
            word, _, rest = line.rstrip("\n").partition("\t")
            if word == "RESTART":
                server.restart()
                process.stdin.write("ready\n")
                process.stdin.flush()
            elif word == "VERB":
                verb, result, remark = rest.split("\t", 2)
                outcome.verbs[verb] = (result, remark)
    finally:
        process.wait()
        killer.cancel()


def table(outcomes: list[Outcome]) -> Iterator[str]:
    """The markdown table of clients and verbs, then a line for each result that is not `ok`."""
    used = [verb for verb in VERBS if any(verb in outcome.verbs for outcome in outcomes)]
    used += sorted({verb for outcome in outcomes for verb in outcome.verbs} - set(VERBS))
    rows = [["client", *used], ["---"] * (len(used) + 1)]
    rows += [[outcome.client, *(outcome.verbs.get(verb, ("", ""))[0] for verb in used)] for outcome in outcomes]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
    yield ""
    for outcome in outcomes:
        for verb, (result, remark) in outcome.verbs.items():
            if result != "ok":
                yield f"{outcome.client}, {verb}: {'not tried: ' if result == '-' else ''}{remark}"
        if outcome.failure or outcome.skipped:
            yield f"{outcome.client}: {outcome.failure or f'left out: {outcome.skipped}'}"
    good = sum(result == "ok" for outcome in outcomes for result, _ in outcome.verbs.values())
    bad = sum(result == "FAILED" for outcome in outcomes for result, _ in outcome.verbs.values())
    bad += sum(outcome.failure is not None for outcome in outcomes)
    yield f"\n{len(outcomes)} clients: {good} ok, {bad} failed"


def last_line(log: Path) -> str:
    lines = log.read_text().strip().splitlines()
    return lines[-1] if lines else "it said nothing"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
