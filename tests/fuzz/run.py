"""Fuzzes one target with atheris, guided by the coverage of levelset: `python -m tests.fuzz.run TARGET SECONDS`.

Starts from the inputs in `tests/fuzz/corpus`; what it finds goes to `build/fuzz/<target>`, an input that fails to
`build/fuzz/<target>-crash-*`. `--keep` replaces the corpus by the smallest of those inputs that reach every line of
levelset that any of them reaches.
"""

import argparse
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.corpus import read_corpus, write_corpus

__all__ = ["main"]

BUILD = Path("build/fuzz")
_LARGEST_INPUT = 300


def main() -> None:
    """Fuzzes a target, or minimises its corpus."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description="Fuzz one target.")
    parser.add_argument("target")
    parser.add_argument("seconds", type=int)
    parser.add_argument("--keep", action="store_true", help="do not fuzz: write the corpus from what was found")
    given = parser.parse_args()
    found = BUILD / given.target
    _seed(given.target, found)
    if given.keep:
        _keep(given.target, found)
    else:
        _fuzz(given.target, [f"-max_total_time={given.seconds}", str(found)])


def _seed(target: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(read_corpus(target)):
        (folder / f"seed-{number}").write_bytes(data)


def _keep(target: str, found: Path) -> None:
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - not before the fuzzer instruments it

    inputs = sorted((one.read_bytes() for one in found.iterdir() if one.stat().st_size <= _LARGEST_INPUT), key=len)
    reached, chosen = set[tuple[str, int]](), list[bytes]()
    for data in [*read_corpus(target), *inputs]:
        lines = _lines(lambda data=data: TARGETS[target](data))
        if not lines <= reached or data in read_corpus(target):
            reached |= lines
            chosen.append(data)
    write_corpus(target, chosen)


def _lines(run: Any) -> set[tuple[str, int]]:
    """The lines of levelset that run."""
    reached: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if "/levelset/" not in frame.f_code.co_filename:
            return None
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return reached


def _fuzz(target: str, arguments: list[str]) -> None:
    import atheris  # noqa: PLC0415 - only `make fuzz` installs it

    with atheris.instrument_imports(include=["levelset"]):
        from tests.fuzz.targets import MAX_BYTES, TARGETS, run_target  # noqa: PLC0415 - instrumented while imported

    if target not in TARGETS:
        sys.exit(f"there is no fuzz target {target}; there are: {', '.join(TARGETS)}")
    options = [f"-max_len={MAX_BYTES}", "-timeout=60", "-rss_limit_mb=2048", f"-artifact_prefix={BUILD}/{target}-"]
    atheris.Setup([sys.argv[0], *options, *arguments], lambda data: run_target(TARGETS[target], data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
