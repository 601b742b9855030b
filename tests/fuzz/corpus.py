"""The corpus of the fuzz targets: `corpus/<target>.txt`, an input per line, with escapes."""

from collections.abc import Iterable
from pathlib import Path

__all__ = ["corpus_path", "read_corpus", "write_corpus"]


def corpus_path(target: str) -> Path:
    """The file of a target's inputs."""
    return Path(__file__).with_name("corpus") / f"{target}.txt"


def read_corpus(target: str) -> list[bytes]:
    """The inputs of a target."""
    lines = corpus_path(target).read_text(encoding="ascii").split("\n")
    return [line.encode("ascii").decode("unicode_escape").encode("latin-1") for line in lines if line]


def write_corpus(target: str, inputs: Iterable[bytes]) -> None:
    """Replaces the inputs of a target."""
    lines = sorted({one.decode("latin-1").encode("unicode_escape").decode("ascii") for one in inputs if one})
    corpus_path(target).write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
