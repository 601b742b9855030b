"""The layout of generated source equals that of the formatter."""

import subprocess
import sys
from itertools import product
from pathlib import Path

from levelset.codegen.models.source_text import attribute, bracketed, listed, split_parts

ROOT = Path(__file__).parents[3]

ODD = 'field(default=None, name="x-y")'
# Annotations as they occur, each with the defaults it may have.
ATTRIBUTES = {
    "{}": (None, "Word()", 'field(name="x-y")'),
    "{} | None": (None, "None", ODD),
    "tuple[{}, ...]": (None, "()", ODD),
    "dict[str, {}]": (None, "{}", ODD),
    "dict[str, tuple[{}, ...]]": ("{}", ODD),
    "dict[str, {}] | None": ("None", ODD),
    'Annotated[tuple[{}, ...], ListMap("name", "port")]': (None, "()", ODD),
    "Annotated[{}, Atomic()] | None": ("None", ODD),
}


def reformatted(source: str) -> list[tuple[str, str]]:
    """The first lines that a formatter changes, each with its replacement."""
    command = [sys.executable, "-m", "ruff", "format", "--config", str(ROOT / "pyproject.toml"), "--no-cache", "-"]
    made = subprocess.run(command, input=source, check=True, capture_output=True, text=True).stdout
    return [pair for pair in zip(source.split("\n"), made.split("\n"), strict=False) if pair[0] != pair[1]][:3]


def test_attributes_are_formatted_at_every_length():
    lines = ["class Some:"]
    pairs = [(annotation, default) for annotation, defaults in ATTRIBUTES.items() for default in defaults]
    for (annotation, default), width, length in product(pairs, (10, 40, 64), range(4, 100)):
        lines += attribute("n" * length, annotation.format("X" * width), default)
    assert reformatted("\n".join(lines) + "\n") == []


def test_calls_and_subscripts_are_formatted_at_every_length():
    lines: list[str] = []
    for length in range(20, 60):
        parts = [f'"{"x" * length}"'] * 3
        lines += bracketed("name = Literal[", parts, "]")
        lines += bracketed("call(", parts, ")")
        lines += listed("names = [", parts, "]")
    assert reformatted("\n".join(lines) + "\n") == []


def test_parts_are_split_at_commas_outside_of_brackets_and_quotes():
    assert split_parts('tuple[a, b], "c, d", \'e"f, g\', call(h, i)') == [
        "tuple[a, b]",
        '"c, d"',
        "'e\"f, g'",
        "call(h, i)",
    ]
    assert split_parts(r'"a\", b", c') == [r'"a\", b"', "c"]
