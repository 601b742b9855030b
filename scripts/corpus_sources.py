"""Gets the modules of the corpus from the Go module proxy, and stores what is taken of them in .cache/corpus.

A module is downloaded once; its zip must have the hash in `tests/corpus/sources.toml`. Its other files are removed.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from scripts.kube_binaries import Missing

from tests.corpus.collection import Contents, Document, Source, read_zip, select

__all__ = ["CACHE", "download", "fetch"]

CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "corpus"
_PATIENCE: Final = 300.0
_FORM: Final = "1"  # of what is stored and how it is chosen


def fetch(source: Source, cache: Path = CACHE) -> Contents:
    """What is taken of a module, from the cache if it is there; raises `Missing`."""
    key = hashlib.sha256(json.dumps([_FORM, *source]).encode()).hexdigest()[:12]
    file = cache / f"{source.name}-{key}.json.gz"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as work:
            found = download(source, Path(work))
            if found["Sum"] != source.sum:
                raise Missing(f"{source.module}@{source.version} has the hash {found['Sum']}, and not {source.sum}")
            prefix = f"{source.module}@{source.version}/"
            taken = select(source, read_zip(Path(found["Zip"]), prefix))
            unfinished = Path(work, "taken")
            unfinished.write_bytes(gzip.compress(json.dumps(taken).encode(), mtime=0))
            unfinished.replace(file)
    definitions, objects = json.loads(gzip.decompress(file.read_bytes()))
    return Contents(definitions, tuple(Document(*one) for one in objects))


def download(source: Source, work: Path) -> dict[str, Any]:
    """Downloads a module into a folder; returns what Go says about it."""
    if shutil.which("go") is None:
        raise Missing("modules are downloaded with Go, which is not on PATH")
    # The hash is pinned in sources.toml. Modules for a newer Go are read as others: nothing of them is compiled.
    environment = os.environ | {"GOMODCACHE": str(work), "GOFLAGS": "-modcacherw", "GOSUMDB": "off"}
    environment["GOTOOLCHAIN"] = "local"
    command = ["go", "mod", "download", "-json", f"{source.module}@{source.version}"]
    try:
        done = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{source.module} was not there after {_PATIENCE:.0f} s") from error
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        found = {"Error": done.stderr}
    if "Zip" not in found or "Sum" not in found:
        raise Missing(f"{source.module}@{source.version}: {' '.join(str(found.get('Error')).split())[:300]}")
    return found
