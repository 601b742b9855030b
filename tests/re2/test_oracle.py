"""The same patterns as Go's regexp, with which Kubernetes matches: the same matches, and the same errors.

Its answers to some hundred patterns are kept beside this file (`record.go` asks for them). Known differences are tested
where they are made, in `test_parsing.py` and `test_charsets.py`.
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


def test_recorded_patterns_find_what_go_finds_and_are_refused_as_go_refuses_them() -> None:
    different = {
        pattern: (answer, found)
        for pattern, answer in RECORDED.items()
        if (found := ours(pattern, list(answer) if isinstance(answer, dict) else [])) != answer
    }
    assert len(RECORDED) >= 500
    assert different == {}


def test_whether_a_text_matches_is_the_same_however_it_is_found_out() -> None:
    for pattern, answer in RECORDED.items():
        if isinstance(answer, str):
            continue
        regex = Regex(pattern)
        for text, found in answer.items():
            assert regex.matches(text) is bool(found), (pattern, text)
            assert regex.steady().matches(text) is bool(found), (pattern, text)
            assert (regex.quick().search(text) is not None) is bool(found), (pattern, text)
            assert regex.find(text) == (found[0] if found else ""), (pattern, text)
