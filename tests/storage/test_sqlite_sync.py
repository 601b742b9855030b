"""Full durability: a write is acknowledged only after it was synced to disk."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WRITER = Path(__file__).with_name("sync_writer.py")
CALLS = "trace=fdatasync,fsync,write"


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace, to see what a process asks of the system")
def test_every_acknowledged_write_was_synced_before(tmp_path):
    command = ["strace", "-f", "-e", CALLS, "-o", tmp_path / "calls", sys.executable, WRITER, tmp_path / "data.db"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode and not done.stdout:
        pytest.skip(f"strace may not look here: {done.stderr}")
    seen = "".join(map(kind_of, (tmp_path / "calls").read_text().splitlines()))
    assert seen.count("a") == done.stdout.count("acknowledged") == 40
    assert re.fullmatch("(s+a)+s*", seen), seen


def kind_of(line: str) -> str:
    """`s` for a sync that has returned, `a` for an acknowledgement, empty for anything else."""
    if "acknowledged" in line:
        return "a"
    return "s" if "sync" in line and line.endswith("= 0") else ""
