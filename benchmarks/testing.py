"""Measures tests: the fixture alone, a thousand tests of a controller, a virtual day, and the explorer's plans.

Run: python benchmarks/testing.py [number of tests]
"""

import importlib.util
import resource
import statistics
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from levelset import MergePatch, ObjectMeta, Ref
from levelset.testing import Cluster, open_cluster, run
from levelset.testing.explore import explore

WEBSITE = Path(__file__).parent.parent / "examples" / "03_website.py"
PLUGIN = "levelset.testing.pytest_plugin"

EMPTY = """
import pytest

@pytest.mark.parametrize("number", range({number}))
def test_nothing(number: int) -> None:
    pass
"""

FIXTURE = """
import pytest
from levelset.testing import Cluster

@pytest.mark.parametrize("number", range({number}))
async def test_nothing(cluster: Cluster, number: int) -> None:
    pass
"""

CONTROLLER = """
import pytest
from levelset import ObjectMeta, Ref
from levelset.testing import Cluster
from website import Deployment, Secret, Website, WebsiteSpec, websites

@pytest.mark.parametrize("number", range({number}))
async def test_a_site_gets_its_deployment(cluster: Cluster, number: int) -> None:
    site = await cluster.create(Website.new("blog", WebsiteSpec(image="blog:1", certificate="blog-tls")))
    async with cluster.running(websites):
        await cluster.settled()
        assert await cluster.find(Ref(Deployment, "blog")) is None
        await cluster.create(Secret(metadata=ObjectMeta(name="blog-tls")))
        await cluster.until(Ref(Deployment, "blog"))
        await cluster.advance(60)
        await cluster.delete(site.ref)
        await cluster.until_gone(Ref(Deployment, "blog"))
"""


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    empty, fixture, controller = (suite(text, number) for text in (EMPTY, FIXTURE, CONTROLLER))
    print(f"{'what':58}{'measured':>20}   goal")
    row(
        "a test with the fixture `cluster`, more than without", f"{(fixture - empty) / number * 1e3:.1f} ms", "<= 15 ms"
    )
    row(f"{number:,} tests of the website controller, with pytest", f"{controller:.1f} s", "< 60 s for 1,000")
    row("  one of them", f"{(controller - empty) / number * 1e3:.1f} ms")
    row("opening and closing a cluster, in the same process", f"{opening():.1f} ms")
    row("a virtual day of the website controller", f"{day() * 1e3:.0f} ms")
    row("plans of the explorer for the website example", f"{plans():.0f}/s and core", ">= 50/s")


def row(what: str, measured: str, goal: str = "") -> None:
    print(f"{what:58}{measured:>20}   {goal}")


def suite(text: str, number: int) -> float:
    """The CPU seconds of pytest for so many tests, including its start."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "test_it.py").write_text(text.format(number=number))
        (Path(folder) / "website.py").write_text(WEBSITE.read_text())
        installed = any(one.value == PLUGIN for one in entry_points(group="pytest11"))
        options = [] if installed else ["-p", PLUGIN]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *options]
        started = children()
        done = subprocess.run([*command, folder], capture_output=True, text=True, check=False, cwd=folder)
        took = children() - started
    assert f"{number} passed" in done.stdout, done.stdout + done.stderr
    return took


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def opening() -> float:
    async def once() -> None:
        async with open_cluster():
            pass

    def timed() -> float:
        started = time.process_time()
        run(once())
        return (time.process_time() - started) * 1e3

    return statistics.median(timed() for _ in range(100))


def day() -> float:
    site = website()

    async def pass_a_day() -> float:
        async with open_cluster() as cluster:
            await make(cluster, site)
            async with cluster.running(site.websites):
                await cluster.settled()
                started = time.process_time()
                await cluster.advance(86400)
                return time.process_time() - started

    return run(pass_a_day())


def plans() -> float:
    site = website()

    async def scenario(people: Cluster) -> None:
        await make(people, site)
        await people.settled()
        await people.patch(Ref(site.Website, "blog"), MergePatch({"spec": {"replicas": 3}}))
        await people.settled()
        await people.delete(Ref(site.Website, "blog"))

    number = 200
    started = time.process_time()
    report = explore(scenario, lambda: [site.websites], budget=number, seed=1)
    took = time.process_time() - started
    assert report.ok, report.story()
    return number / took


async def make(cluster: Cluster, site: Any) -> None:
    await cluster.create(site.Secret(metadata=ObjectMeta(name="blog-tls")))
    await cluster.create(site.Website.new("blog", site.WebsiteSpec(image="blog:1", certificate="blog-tls")))


def website() -> ModuleType:
    spec = importlib.util.spec_from_file_location("website", WEBSITE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["website"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
