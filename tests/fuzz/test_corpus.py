"""The corpus of the fuzzer: every input that it found worth keeping, and every one that once failed."""

import re
from pathlib import Path

import pytest

from tests.fuzz.corpus import corpus_path, read_corpus, write_corpus
from tests.fuzz.targets import TARGETS, run_target


@pytest.mark.parametrize("target", TARGETS)
def test_every_input_of_the_corpus_holds_what_its_target_asserts(target: str) -> None:
    inputs = read_corpus(target)
    assert inputs
    for data in inputs:
        run_target(TARGETS[target], data)


def test_a_corpus_is_read_as_it_was_written(tmp_path, monkeypatch) -> None:
    inputs = [bytes(range(256)), b"a\\n", b"\n"]
    monkeypatch.setattr("tests.fuzz.corpus.corpus_path", lambda target: tmp_path / target)
    write_corpus("any", inputs)
    assert sorted(read_corpus("any")) == sorted(inputs)


def test_every_corpus_has_a_target_and_stays_small() -> None:
    files = list(corpus_path("any").parent.iterdir())
    assert {one.stem for one in files} == set(TARGETS)
    assert sum(one.stat().st_size for one in files) < 200_000


def test_make_fuzz_runs_every_target() -> None:
    named = re.search(r"^FUZZ_TARGETS \?= (.*)$", Path("Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert named is not None
    assert named[1].split() == list(TARGETS)
