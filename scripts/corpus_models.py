"""Generates the classes of all definitions of the corpus: they import, mypy accepts them, and objects round-trip."""

import importlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from levelset.codegen.models.from_crd import models_from_crd
from levelset.errors import LevelsetError
from levelset.objects import Object, decode, definition_of, encode
from tests.corpus.answers import Played
from tests.corpus.collection import Corpus

__all__ = ["check_models", "round_trips"]

ROOT: Final = Path(__file__).resolve().parent.parent
_PLACE: Final = ROOT / "build" / "corpus"
_PACKAGE: Final = "corpus_models"
_MYPY_LINE: Final = re.compile(r"^.*?([a-z0-9_]+\.py):\d+: error: (.*)$", re.MULTILINE)


def check_models(corpus: Corpus, created: Sequence[Played]) -> dict[str, bool]:
    """Whether each definition's module, and each sample, holds; prints what does not, with counts and times."""
    began = time.monotonic()
    outcomes: dict[str, bool] = {}
    files = _generate(corpus, outcomes)
    classes = _import(files, outcomes)
    print(f"{len(files)} modules of {len(corpus.definitions)} definitions generated and imported in"
          f" {time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
    began = time.monotonic()
    refused = _mypy()
    for file, messages in refused.items():
        print(f"mypy refuses {file}: {messages[0]}")
    outcomes |= {f"mypy {file}": file not in refused for file in files}
    print(f"mypy --strict refuses {len(refused)} of {len(files)} modules, in {time.monotonic() - began:.0f} s")
    _round_trip(classes, created, outcomes)
    return outcomes


def _generate(corpus: Corpus, outcomes: dict[str, bool]) -> list[str]:
    package = _PLACE / _PACKAGE
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Classes of the corpus."""\n', "utf-8")
    files: list[str] = []
    for name, (_, body) in corpus.definitions.items():
        try:
            found = models_from_crd(body, with_group=True)
        except LevelsetError as error:
            print(f"no classes of {name}: {error}")
            outcomes[f"generate {name}"] = False
            continue
        outcomes[f"generate {name}"] = True
        for file, text in found.items():
            (package / file).write_text(text, "utf-8")
            files.append(file)
    return files


def _import(files: Iterable[str], outcomes: dict[str, bool]) -> dict[tuple[str, str], type[Object]]:
    """The classes by apiVersion and kind."""
    sys.path.insert(0, str(_PLACE))
    classes: dict[tuple[str, str], type[Object]] = {}
    for file in files:
        try:
            module = importlib.import_module(f"{_PACKAGE}.{file.removesuffix('.py')}")
        except Exception as error:  # noqa: BLE001 - of generated code: what it is, is the finding
            print(f"{file} cannot be imported: {error!r}")
            outcomes[f"import {file}"] = False
            continue
        outcomes[f"import {file}"] = True
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, Object) and one.__module__ == module.__name__:
                gvk = definition_of(one).gvk
                classes[(f"{gvk.group}/{gvk.version}", gvk.kind)] = one
    return classes


def _mypy() -> dict[str, list[str]]:
    """What mypy says about each file that it refuses."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(_PLACE / "mypy")]
    done = subprocess.run(
        [*command, "--config-file=", "-p", _PACKAGE], cwd=_PLACE, capture_output=True, text=True, check=False
    )
    found: dict[str, list[str]] = {}
    for file, message in _MYPY_LINE.findall(done.stdout):
        found.setdefault(file, []).append(message)
    if done.returncode and not found:
        raise RuntimeError(f"mypy failed: {(done.stdout + done.stderr)[-2000:]}")
    return found


def _round_trip(
    classes: dict[tuple[str, str], type[Object]], created: Sequence[Played], outcomes: dict[str, bool]
) -> None:
    tried = good = 0
    for one in created:
        assert one.sample is not None
        kind = classes.get((one.sample.body["apiVersion"], one.sample.body["kind"]))
        if kind is None:
            continue
        problem = round_trips(kind, one.body)
        tried, good = tried + 1, good + (not problem)
        outcomes[f"round trip {one.source} {one.key}"] = not problem
        if problem:
            print(f"{one.source} {one.key}: {problem}")
    print(f"{good} of {tried} created samples round-trip as the server answered them")


def round_trips(kind: type[Object], body: Any) -> str:
    """What is wrong with decoding and encoding an object; empty if it is the same to the byte, with sorted keys."""
    before = json.dumps(body, sort_keys=True)
    try:
        after = json.dumps(json.loads(encode(decode(kind, json.dumps(body).encode()))), sort_keys=True)
    except LevelsetError as error:
        return f"it cannot be read: {error}"
    if before == after:
        return ""
    place = next((at for at, (one, two) in enumerate(zip(before, after, strict=False)) if one != two), len(after))
    return f"...{before[max(place - 60, 0) : place + 40]}... is ...{after[max(place - 60, 0) : place + 40]}..."
