"""Plays the corpus (`tests/corpus`) on our server, and compares with the recorded answers of kube-apiserver.

    make test-corpus                                  # on our server, and the models of all definitions
    make test-corpus CORPUS="--source kueue --no-models"
    make record-corpus                                # records the answers of kube-apiserver again (builds it)

The files are those of pinned modules of the Go module proxy (`corpus_sources.py`). `tests/corpus/differences.toml`
names what is answered differently, with reasons; the exit code is 1 if something begins to differ or to agree. The
costs of all rules are compared, too (`corpus_costs.py`).
"""

import argparse
import asyncio
import gzip
import json
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.corpus_costs import compare_costs, our_costs, read_costs, record_costs
from scripts.corpus_models import check_models
from scripts.corpus_sources import CACHE, fetch
from scripts.e2e_suite import Expectations
from scripts.kube_binaries import Missing
from scripts.kube_server import serve
from scripts.run_summary import run_summary

from tests.corpus.answers import Fact, Played, play, prepare
from tests.corpus.collection import Contents, Corpus, Source, join, read_sources
from tests.differential.normal_form import differences
from tests.differential.servers import Server, TheirServer, open_ours

__all__ = [
    "Comparison",
    "compare",
    "main",
    "read_expectations",
    "read_facts",
    "recorded_only",
    "surprises",
    "write_facts",
]

FOLDER: Final = Path(__file__).resolve().parent.parent / "tests" / "corpus"
FACTS: Final = FOLDER / "facts"
DIFFERENCES: Final = FOLDER / "differences.toml"
_FORMS: Final = CACHE / "forms.json.gz"  # the answers of the last recording whole, to see what differs
_DOWNLOADS: Final = 3

Facts = dict[str, dict[str, Fact]]


class Comparison(NamedTuple):
    """What became of one definition or sample: its full name, and what was recorded and answered if they differ."""

    name: str
    recorded: Fact | None = None
    answered: Fact | None = None

    @property
    def agrees(self) -> bool:
        """Whether both answers are the same."""
        return self.recorded == self.answered


def read_facts(folder: Path = FACTS) -> Facts:
    """The recorded answers, by source and by definition or file."""
    return {
        path.name.removesuffix(".json"): json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))
    }


def write_facts(facts: Facts, folder: Path = FACTS) -> None:
    """Writes the answers of each source to a file, a line for each; files of other sources are removed."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.json"):
        path.unlink()
    for source, answers in facts.items():
        rows = [f"{json.dumps(key)}: {json.dumps(one, separators=(',', ':'))}" for key, one in answers.items()]
        (folder / f"{source}.json").write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


def recorded_only(contents: Sequence[tuple[str, Contents]], facts: Facts) -> list[tuple[str, Contents]]:
    """The contents with the definitions that were recorded of each source; if one is missing, no other replaces it.

    Unless the corpus is whole, samples are those that were recorded, too: others are of a source that has them first.
    """
    is_whole = len(contents) == len(facts)

    def of_source(source: str, one: Contents) -> Contents:
        known = facts.get(source, {})
        definitions = {name: body for name, body in one.definitions.items() if f"definition {name}" in known}
        return Contents(definitions, tuple(each for each in one.objects if is_whole or each.where in known))

    return [(source, of_source(source, one)) for source, one in contents]


def compare(facts: Facts, answered: Facts, sources: Sequence[str], *, is_whole: bool = True) -> list[Comparison]:
    """Recorded and new answers of these sources side by side.

    Unless the corpus is whole, what was not answered is left out: its definition may be of a module that is missing.
    """
    found: list[Comparison] = []
    for source in sources:
        old, new = facts.get(source, {}), answered.get(source, {})
        keys = {**old, **new} if is_whole else new
        found += [Comparison(f"{source} {key}", old.get(key), new.get(key)) for key in keys]
    return found


def read_expectations(path: Path = DIFFERENCES) -> dict[str, Expectations]:
    """What differs, and why: regular expressions of names by reason, for answers and for models."""
    tables = tomllib.loads(path.read_text("utf-8"))
    return {
        part: Expectations(fail={why: tuple(patterns) for why, patterns in tables.get(part, {}).items()})
        for part in ("answers", "models")
    }


def surprises(expected: Expectations, outcomes: dict[str, bool]) -> list[str]:
    """What began to agree or to differ, by name."""
    return [
        f"began to {'agree' if holds else 'differ'}: {name}"
        for name, holds in outcomes.items()
        if holds == bool(expected.failing(name))
    ]


def fetch_all(sources: Sequence[Source]) -> tuple[list[tuple[str, Contents]], list[str]]:
    """What is taken of each module, and why others cannot be had."""

    def attempt(source: Source) -> Contents | str:
        try:
            return fetch(source)
        except Missing as error:
            return str(error)

    with ThreadPoolExecutor(_DOWNLOADS) as pool:
        found = list(zip(sources, pool.map(attempt, sources), strict=True))
    return (
        [(source.name, one) for source, one in found if not isinstance(one, str)],
        [one for _, one in found if isinstance(one, str)],
    )


async def answers_of(server: Server, corpus: Corpus) -> tuple[Facts, dict[str, Any], list[Played]]:
    """The facts of a server's answers, the answers whole, and the samples that were created."""
    facts: Facts = {}
    forms: dict[str, Any] = {}
    created: list[Played] = []
    await prepare(server)
    async for one in play(server, corpus):
        facts.setdefault(one.source, {})[one.key] = one.fact
        forms[f"{one.source} {one.key}"] = one.forms
        if one.sample is not None and one.fact[0] == 201:
            created.append(one)
    return facts, forms, created


def record(corpus: Corpus) -> None:
    """Records the answers of kube-apiserver."""
    with serve() as server:
        facts, forms, _ = asyncio.run(answers_of(TheirServer(server.url, server.token), corpus))
    write_facts(facts)
    _FORMS.write_bytes(gzip.compress(json.dumps(forms).encode()))
    codes = Counter(one[0] for answers in facts.values() for one in answers.values())
    print(f"recorded: {', '.join(f'{count} times {code}' for code, count in sorted(codes.items()))}")


async def _ours(corpus: Corpus) -> tuple[Facts, dict[str, Any], list[Played]]:
    async with open_ours() as server:
        return await answers_of(server, corpus)


def _show(found: Sequence[Comparison], forms: dict[str, Any], limit: int) -> None:
    """Prints what differs; with the answers of the last recording, at which places."""
    recorded: dict[str, Any] = json.loads(gzip.decompress(_FORMS.read_bytes())) if _FORMS.exists() else {}
    for one in found[:limit]:
        print(f"{one.name}\n  recorded {str(one.recorded)[:600]}\n  answered {str(one.answered)[:600]}")
        if one.name in recorded and one.name in forms:
            ours = json.loads(json.dumps(forms[one.name]))
            for place in list(differences(recorded[one.name], ours))[:5]:
                print(f"    {place.path}: {str(place.theirs)[:300]} / {str(place.ours)[:300]}")


def _test(given: argparse.Namespace, contents: list[tuple[str, Contents]]) -> int:
    facts = read_facts()
    corpus = join(recorded_only(contents, facts))
    began = time.monotonic()
    answered, forms, created = asyncio.run(_ours(corpus))
    compared = compare(facts, answered, [name for name, _ in contents], is_whole=len(contents) == len(facts))
    for word, is_definition in (("definitions", True), ("samples", False)):
        here = [one for one in compared if (" definition " in one.name) == is_definition]
        print(f"{len(here)} {word}, {sum(one.agrees for one in here)} answered as by kube-apiserver")
    skipped = sum(map(len, facts.values())) - len(compared)
    print(f"played in {time.monotonic() - began:.0f} s; {skipped} recorded answers are of modules that are not here")
    costs = our_costs(contents)
    different = compare_costs(read_costs(), costs, is_whole=len(contents) == len(facts))
    print(f"{sum(map(len, costs.values()))} costs of rules in {len(costs)} schemas, {len(different)} schemas differ")
    expected = read_expectations()
    changed = different + surprises(expected["answers"], {one.name: one.agrees for one in compared})
    shown = [one for one in compared if not one.agrees and (given.all or not expected["answers"].failing(one.name))]
    _show(shown, forms, given.show)
    if not given.no_models:
        changed += surprises(expected["models"], check_models(corpus, created))
    print("\n".join(changed) or f"What differs is what {DIFFERENCES.name} names.")
    return 1 if changed else 0


def main(arguments: list[str]) -> int:
    """Records or tests the corpus; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="record the answers of kube-apiserver")
    parser.add_argument("--source", action="append", help="only modules with this text in their names")
    parser.add_argument("--no-models", action="store_true", help="without the generated classes")
    parser.add_argument("--show", type=int, default=40, help="how many differences are shown")
    parser.add_argument("--all", action="store_true", help="show those that are expected, too")
    given = parser.parse_args(arguments)
    sources = [one for one in read_sources() if not given.source or any(word in one.module for word in given.source)]
    began = time.monotonic()
    contents, missing = fetch_all(sources)
    print(f"{len(contents)} of {len(sources)} modules, in {time.monotonic() - began:.0f} s", flush=True)
    if not contents:
        print("\n".join([*missing, "Nothing was tested: the files come from the Go module proxy (see above)."]))
        return 0
    if given.record:
        if missing or given.source:
            print("Only the whole corpus can be recorded.")
            return 2
        record(join(contents))
        record_costs(contents)
        return 0
    code = _test(given, contents)
    print("\n".join(run_summary(began, [*missing, *(["models (--no-models)"] if given.no_models else [])])))
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
