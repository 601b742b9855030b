"""Writes tables into benchmarks/README.md, between a mark with their name and an end mark."""

from pathlib import Path
from typing import Final

__all__ = ["README", "replace_between", "write_table"]

README: Final = Path(__file__).with_name("README.md")


def write_table(name: str, table: str) -> None:
    README.write_text(replace_between(README.read_text(encoding="utf-8"), name, table), encoding="utf-8")


def replace_between(text: str, name: str, new: str) -> str:
    """The text with what is between `<!-- name -->` and `<!-- end -->` replaced."""
    begin, end = f"<!-- {name} -->\n", "<!-- end -->\n"
    before, found, rest = text.partition(begin)
    if not found:
        raise SystemExit(f"benchmarks/README.md has no {begin.strip()}")
    return f"{before}{begin}\n{new}\n{end}{rest.partition(end)[2]}"
