"""Patterns have the same matches and errors as in Go's regexp, which Kubernetes uses.

Its results for some hundred patterns are beside this file (recorded by `record.go`). Known differences are tested
in `test_parser.py` and `test_charsets.py`.
"""

import json
from pathlib import Path
from typing import Any

from levelset.re2 import BadRegex, Regex

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded.json").read_text(encoding="utf-8"))


def ours(pattern: str, texts: list[str]) -> Any:
    try:
        regex = Regex(pattern)
    except BadRegex as error:
        return str(error)
    return {text: regex.find_all(text) for text in texts}


def test_recorded_patterns_have_the_same_matches_and_errors_as_in_go() -> None:
    different = {
        pattern: (answer, found)
        for pattern, answer in RECORDED.items()
        if (found := ours(pattern, list(answer) if isinstance(answer, dict) else [])) != answer
    }
    assert len(RECORDED) >= 500
    assert different == {}


def test_every_engine_finds_the_same_matches() -> None:
    for pattern, answer in RECORDED.items():
        if isinstance(answer, str):
            continue
        regex = Regex(pattern)
        for text, found in answer.items():
            assert regex.matches(text) is bool(found), (pattern, text)
            assert regex.linear().matches(text) is bool(found), (pattern, text)
            assert (regex.backtracking().search(text) is not None) is bool(found), (pattern, text)
            assert regex.find(text) == (found[0] if found else ""), (pattern, text)
