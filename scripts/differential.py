"""Sends generated requests to our server and to kube-apiserver side by side, and shows what is answered differently.

make test-differential                          # 2,000 sequences of new seeds
make test-differential DIFFERENTIAL="--seed x --sequences 500"
"""

import argparse
import asyncio
import json
import secrets
import sys
import time
from pathlib import Path
from typing import Any

from scripts.kube_server import Server, serve

from tests.differential import corpus, fuzzer, scenarios
from tests.differential.servers import OurServer, TheirServer, install, open_ours

__all__ = ["main"]


async def _run(server: Server, given: argparse.Namespace) -> int:
    began = time.monotonic()
    seeds = [f"{given.seed}-{number}" for number in range(given.sequences)]
    shown, known = 0, set[str]()

    def progress(report: fuzzer.Report) -> None:
        nonlocal shown
        known.update(names := report.groups.keys() - known)
        for name in names:
            print(f"{time.monotonic() - began:6.0f} s  {name}   [{report.groups[name][0].seed}]", flush=True)
        if report.all.sequences >= shown + 500:
            shown = report.all.sequences
            print(f"{time.monotonic() - began:6.0f} s  {report.all}", flush=True)

    async with open_ours() as ours:
        theirs = TheirServer(server.url, server.token)
        definitions = corpus.load().definitions
        await asyncio.gather(install(theirs, definitions), install(ours, definitions))
        report = await fuzzer.fuzz(seeds, lambda: TheirServer(server.url, server.token), ours, progress)
        if given.shrink:
            await _shrink(report, theirs, ours, given)
    print(fuzzer.show(report, given.groups))
    if given.output:
        found = {name: [vars(one) for one in group[:3]] for name, group in report.groups.items()}
        await asyncio.to_thread(Path(given.output).write_text, json.dumps(found, indent=1))
    return 1 if report.all.different else 0


async def _shrink(report: fuzzer.Report, theirs: TheirServer, ours: OurServer, given: argparse.Namespace) -> None:
    """Shrinks one finding of each group, and writes it as a scenario."""
    scenarios_found: dict[str, Any] = {}
    groups = sorted(report.groups.items(), key=lambda one: -len(one[1]))
    for name, found in groups[: given.shrink]:
        smallest = await fuzzer.smallest(min(found, key=lambda one: len(one.steps)), theirs, ours)
        if smallest is None:
            print(f"not again: {name}")
            continue
        steps = list(smallest.steps)
        scenarios_found[scenarios.name_of(steps)] = {"steps": steps, "answers": list(smallest.answers)}
    scenarios.save(given.file, scenarios_found)
    print(f"{len(scenarios_found)} scenarios written to {scenarios.FOLDER / given.file}.json")


def main() -> int:
    """Runs the sequences of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--groups", type=int, default=40, help="how many groups of differences are shown")
    parser.add_argument("--output", help="a file for all findings, as JSON")
    parser.add_argument("--shrink", type=int, default=0, help="shrink one finding of so many groups")
    parser.add_argument("--file", default="new", help="the file in tests/differential/found for what was shrunk")
    parser.add_argument("--server", help="a running kube-apiserver")
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    if given.server:
        return asyncio.run(_run(Server(given.server, given.token), given))
    with serve() as server:
        return asyncio.run(_run(server, given))


if __name__ == "__main__":
    sys.exit(main())
