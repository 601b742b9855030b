"""Spans of reconciles and requests, as OpenTelemetry's own exporter sees them."""

import asyncio
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import levelset
from levelset.client import Client
from levelset.client.internals import with_hook
from levelset.errors import ConfigError
from levelset.runtime.manager import Manager
from levelset.runtime.manager.tracing import Tracing
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import ConfigMap, website
from tests.runtime.manager.recording import open_server, websites


def recorder():
    sdk = import_module("opentelemetry.sdk.trace")
    export = import_module("opentelemetry.sdk.trace.export")
    exporter = import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    return provider.get_tracer("tests"), exporter


def test_without_opentelemetry_tracing_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)  # as where it is not installed
    with pytest.raises(ConfigError, match=r"levelset\[otel\]"):
        Tracing()


def test_a_reconcile_is_a_span_with_its_requests_inside():
    tracer, exporter = recorder()
    run_once(Tracing(tracer))
    spans = {span.name: span for span in exporter.get_finished_spans()}
    reconcile = spans["reconcile websites"]
    inner = next(span for name, span in spans.items() if "ConfigMap" in name)
    assert inner.parent.span_id == reconcile.context.span_id
    assert reconcile.attributes["levelset.ref"] == "Website/default/blog"
    assert reconcile.attributes["levelset.result"] == "failed"
    assert reconcile.status.description == "boom"


@virtual
async def run_once(tracing: Tracing) -> None:
    async def reconcile(site, ctx):
        await ctx.client.list(ConfigMap, namespace="default")
        raise ValueError("boom")

    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        async with Manager(with_hook(client, tracing.hook), observers=[tracing]) as manager:
            manager.add(websites(reconcile))
            await asyncio.sleep(1)


PROGRAM = '''
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from levelset import Controller, Resource, Spec, Status, run
from levelset.runtime.manager import Tracing


class Printing(SpanExporter):
    def export(self, spans):
        for span in spans:
            print("span", span.name, "child" if span.parent else "root", flush=True)
        return SpanExportResult.SUCCESS


class Shop(Resource[Spec, Status], api="tracing.example.dev/v1"):
    """A kind to reconcile."""


async def reconcile(shop, ctx):
    await ctx.live(shop.ref)


def setup(manager):
    async def open_and_stop():
        await manager.client.create(Shop.new("tea", Spec(), namespace="default"))
        await manager.wait_idle()
        manager.request_stop()

    manager.add_task("open", open_and_stop)


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Printing()))
run(Controller(Shop, reconcile), local=True, setup=setup, tracing=Tracing(provider.get_tracer("shop")))
'''


def test_a_program_with_tracing_has_spans_of_reconciles_and_of_requests_inside_them(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(levelset.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    spans = {line for line in done.stdout.splitlines() if line.startswith("span ")}
    assert {"span reconcile shops root", "span get Shop/default/tea child"} <= spans
