"""The words of the field are used, and the private ones that levelset once had do not come back.

Each word is listed with what is written instead (docs/decisions/0026). Words that also have a plain meaning ("ask for
confirmation", "keep-alive") are forbidden only in the old one: as a part of a name, or in a telltale phrase. What
has to stay is listed under `[word]` in exceptions.toml with its reason.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.project.files import ROOT, exceptions, relative, tracked

FOLDERS = ("src", "systems", "tests", "examples", "benchmarks", "scripts", "docs", ".ci")
# Recorded elsewhere, or about the words themselves.
NOT_OURS = (
    "tests/conformance/kit/",
    "tests/codegen/crds/",
    "tests/clients/go-operator/",
    "tests/clients/rust-operator/",
)
ABOUT_WORDS = {
    "tests/project/test_vocabulary.py",
    "tests/project/exceptions.toml",
    "docs/decisions/0026-layout-and-vocabulary.md",
}
SUFFIXES = {".py", ".md", ".toml", ".js", ".html", ".css", ".sh", ".yaml", ""}

PHRASES = {
    r"whoever|somebody|everybody|anybody": "name the actor: the caller, the client, the user, another writer",
    r"(?<!\")nobody(?!\")": "no client, no watcher, no owner: name the actor",
    r"anew": "again, reloaded, regenerated",
    r"rooms|(?:this|a|the|each|every|one) room|cellar|the house|shop window": "package, code base, public API",
    r"(?:upper|lower|next|one|which|its|the|of) floors?": "layer",
    r"look(?:s|ed|ing)? (?:at|again|after)|looks whether": "reconcile, requeue; read, inspect, check",
    r"(?:a|one|each|every|next|last|this|of) look|\d+ looks": "reconcile",
    r"hears?|heard": "is notified, receives; last event",
    r"(?:is|are|was|were) told|told of|tells? of|tells? (?:them|him|who)": "is notified, gets an event, reports",
    r"teller|sieve|errands?|mourn\w*|duties": "reporter, filter, tasks, handlers",
    r"wish(?:es|ed)?": "request, desired state",
    r"papers": "certificates",
    r"in trouble|troubled?|troubles": "error, failure",
    r"in step with": "synced, up to date",
    r"the way of the data": "data flow",
    r"those who|who is asking|who asks": "the clients, the caller",
    r"(?:is|are|was|were|be) asked|asks? (?:again|whether|who)|asking": "enqueue; request, call, send, read",
}
NAME_PARTS = {
    "look": "reconcile, inspect",
    "looks": "reconciles",
    "looked": "reconciled",
    "looking": "a noun of the field",
    "ask": "enqueue, request, call",
    "asks": "enqueue",
    "asked": "requested",
    "asker": "client, sender",
    "asking": "a noun of the field",
    "tell": "notify, report",
    "tells": "notifies, reports",
    "told": "reported, output, message",
    "teller": "reporter",
    "hear": "receive, subscribe",
    "heard": "received, last event",
    "hears": "receives",
    "kept": "cached, stored",
    "keeper": "decoder, store, reconciler",
    "trouble": "error",
    "troubles": "errors",
    "desk": "request queue",
    "sieve": "filter",
    "errand": "task",
    "errands": "tasks",
    "wish": "request",
    "wishes": "requests",
    "papers": "certificates",
    "mourn": "finalize",
    "room": "package, space",
    "rooms": "packages",
    "house": "code base",
    "somebody": "the actor",
    "nobody": "the actor",
    "everybody": "the actor",
    "whoever": "the actor",
    "anew": "again",
}
# In lower case: to ignore case takes three times as long.
PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b")
WORD = re.compile(r"\w+")
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def files() -> list[Path]:
    names = {path: relative(path) for path in tracked()}
    return [
        path
        for path, name in names.items()
        if (name.startswith(FOLDERS) or "/" not in name)
        and not name.startswith(NOT_OURS)
        and name not in ABOUT_WORDS
        and path.suffix in SUFFIXES
    ]


def phrases(text: str) -> Iterator[str]:
    yield from (match[0] for match in PHRASE.finditer(text.lower()))


def private_parts(text: str) -> set[str]:
    """The private words in identifiers; tokenizes only texts that have such a word anywhere, which takes most time."""
    everywhere = set[str]().union(*map(parts_of, set(WORD.findall(text)))) & NAME_PARTS.keys()
    return everywhere & set(name_parts(text)) if everywhere else set()


def name_parts(text: str) -> Iterator[str]:
    """The words of identifiers: `list_kept` has "list" and "kept". Names of tests are sentences, checked as such."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not token.string.startswith("test_"):
            yield from parts_of(token.string)


@cache
def parts_of(name: str) -> frozenset[str]:
    return frozenset(part.lower() for part in PART.findall(name))


def found(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8", errors="ignore")
    sentences = re.sub(r"\btest_\w+", lambda name: name[0].replace("_", " "), text)
    words = set(phrases(sentences))
    if path.suffix == ".py":
        words |= private_parts(text)
    return words


def test_no_file_uses_a_private_word() -> None:
    allowed = exceptions()["word"]
    used = {f"{relative(path)}: {word}" for path in files() for word in found(path)}
    assert sorted(used - allowed.keys()) == []
    assert sorted(allowed.keys() - used) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Tells whoever waits.", "whoever"),
        ("The object is looked at again.", "looked at"),
        ("def list_kept(self): ...", "kept"),
        ("class EventTeller: ...", "teller"),
        ("await queue.ask(key)", "ask"),
    ],
)
def test_a_private_word_is_found(text: str, word: str, tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(f'"""{text}"""\n' if text.endswith(".") and "..." not in text else text, encoding="utf-8")
    assert word in found(sample)


def test_a_plain_word_is_fine(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text('"""Looks up the key of a keep-alive task."""\nlookup = task = mask = 1\n', encoding="utf-8")
    assert found(sample) == set()


def test_the_project_has_files_to_check() -> None:
    assert len(files()) > 500
    assert (ROOT / "README.md") in files()
