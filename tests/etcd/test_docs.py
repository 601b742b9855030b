"""The code of the pages about etcd, on a real one: elsewhere it is only compiled and defined."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.etcd.etcd_cluster import EtcdCluster

PAGES = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["decisions/0038-storage-in-etcd.md"])
async def test_the_code_of_a_page_runs(page: str, shared_cluster: EtcdCluster):
    text = await asyncio.to_thread((PAGES / page).read_text, "utf-8")
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    command = [sys.executable, "-c", found[1], shared_cluster.endpoints]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
