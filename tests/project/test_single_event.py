"""The way of one watch event, over TLS, until the reconciler is called: short, and as ARCHITECTURE.md shows it."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "levelset"
MAX_FRAMES, MAX_FILES = 60, 14


def test_an_event_passes_through_few_functions_in_the_files_of_the_data_flow() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "single_events.py"), "frames", "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=540)
    frames = [
        (Path(file).relative_to(SOURCE).as_posix(), function)
        for file, function in json.loads(done.stdout)["all"]
        if Path(file).is_relative_to(SOURCE)
    ]
    files = sorted({file for file, _ in frames})
    assert len(frames) <= MAX_FRAMES, "\n".join(f"{file}: {function}" for file, function in frames)
    assert len(files) <= MAX_FILES, files
    page = (ROOT / "ARCHITECTURE.md").read_text()
    flow = page[page.index("| step | file |") :].split("\n\n")[0]
    assert [file for file in files if f"`{file}`" not in flow] == []
