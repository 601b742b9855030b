"""Small operators as text: what they do, wrapped into layers of functions, methods, closures, partials and so on."""

import importlib.util
import itertools
import linecache
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

__all__ = ["ACTIONS", "HEADER", "LAYERS", "load_operator", "operator_text"]

_numbers = itertools.count()

HEADER = """
import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial, wraps

from levelset.client import MergePatch
from levelset.errors import ApiError
from levelset.objects import Object, ObjectMeta, Resource, Spec, Status, replace
from levelset.runtime.controller import Context, Controller, owns


class ShopSpec(Spec):
    size: int = 1


class ShopStatus(Status):
    ready: int = 0


class Shop(Resource[ShopSpec, ShopStatus], api="trade.example.dev/v1"):
    pass


class ConfigMap(Object, api="v1"):
    data: dict[str, str] = {}


class Secret(Object, api="v1"):
    pass


def child(site):
    return ConfigMap(metadata=ObjectMeta(name=site.name, namespace=site.namespace), data={"a": "b"})


def secret(site):
    return replace(Secret(metadata=ObjectMeta(name=site.name)), metadata=ObjectMeta(name="s", namespace=site.namespace))
"""

ACTIONS = (
    "await ctx.set_status(site, ShopStatus(ready=1))",
    "await ctx.apply(child(site), owner=site)",
    "await ctx.client.create(child(site))",
    "await ctx.client.update_status(site.with_status(ShopStatus(ready=2)))",
    "await ctx.patch(site.ref, MergePatch({'metadata': {'labels': {'a': 'b'}}}))",
    "await ctx.update(site.with_metadata(labels={'c': 'd'}))",
    "await ctx.save(site.with_spec(size=2))",
    "await ctx.apply(secret(site), owner=site)",
    "await ctx.client.list(Secret, namespace=site.namespace)",
    "await ctx.apply({'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'x'}, 'spec': {}}, owner=site)",
    "ctx.record(site, 'Seen', 'it was seen')",
    "[await ctx.delete(one) for one in await ctx.children(ConfigMap)]",
    "await ctx.delete(ctx.object)",
    "write = ctx.apply; await write(child(site))",
    "found = await ctx.live(site.ref); await ctx.client.delete(found.ref)",
)
"""What a reconciler may do with `site` and `ctx`; each sends requests."""

LAYERS = {
    "function": ("async def f{i}(site, ctx):\n    await {next}(site, ctx)\n", "f{i}"),
    "swapped": (
        (
            "async def g{i}(ctx, site):\n    await {next}(site, ctx)\n"
            "async def f{i}(site, ctx):\n    await g{i}(ctx, site=site)\n"
        ),
        "f{i}",
    ),
    "lambda": ("f{i} = lambda site, ctx: {next}(site, ctx)\n", "f{i}"),
    "method": (
        (
            "class C{i}:\n"
            "    async def run(self, site, ctx):\n        await self.helper(site, ctx)\n"
            "    async def helper(self, site, ctx):\n        await {next}(site, ctx)\n"
        ),
        "C{i}().run",
    ),
    "inherited": (
        (
            "class B{i}:\n    async def run(self, site, ctx):\n        await {next}(site, ctx)\n"
            "class C{i}(B{i}):\n    async def run(self, site, ctx):\n        await super().run(site, ctx)\n"
        ),
        "C{i}().run",
    ),
    "hook of a base class": (
        (
            "class B{i}:\n    async def run(self, site, ctx):\n        await self.hook(site, ctx)\n"
            "class C{i}(B{i}):\n    async def hook(self, site, ctx):\n        await {next}(site, ctx)\n"
        ),
        "C{i}().run",
    ),
    "closure": (
        (
            "def make{i}(inner):\n    async def run(site, ctx):\n        await inner(site, ctx)\n    return run\n"
            "f{i} = make{i}({next})\n"
        ),
        "f{i}",
    ),
    "nested": (
        "async def f{i}(site, ctx):\n    async def inner():\n        await {next}(site, ctx)\n    await inner()\n",
        "f{i}",
    ),
    "partial": (
        "async def g{i}(label, site, ctx):\n    await {next}(site, ctx)\nf{i} = partial(g{i}, 'x')\n",
        "f{i}",
    ),
    "partial inside": (
        "async def f{i}(site, ctx):\n    go = partial({next}, site)\n    await go(ctx)\n",
        "f{i}",
    ),
    "decorated": (
        (
            "def d{i}(function):\n    @wraps(function)\n    async def run(*args, **options):\n"
            "        return await function(*args, **options)\n    return run\n"
            "@d{i}\nasync def f{i}(site, ctx):\n    await {next}(site, ctx)\n"
        ),
        "f{i}",
    ),
    "callable object": (
        "class C{i}:\n    async def __call__(self, site, ctx):\n        await {next}(site, ctx)\n",
        "C{i}()",
    ),
    "table": ("T{i} = {{'a': {next}}}\nasync def f{i}(site, ctx):\n    await T{i}['a'](site, ctx)\n", "f{i}"),
    "holder": (
        (
            "@dataclass\nclass H{i}:\n    ctx: object\n    async def run(self, site):\n"
            "        await {next}(site, self.ctx)\n"
            "async def f{i}(site, ctx):\n    await H{i}(ctx).run(site)\n"
        ),
        "f{i}",
    ),
    "attribute": (
        (
            "class C{i}:\n    def __init__(self):\n        self.inner = {next}\n"
            "    async def run(self, site, ctx):\n        self.ctx = ctx\n        await self.go(site)\n"
            "    async def go(self, site):\n        await self.inner(site, self.ctx)\n"
        ),
        "C{i}().run",
    ),
    "gather": (
        "async def f{i}(site, ctx):\n    await asyncio.gather(*[{next}(one, ctx) for one in [site]])\n",
        "f{i}",
    ),
    "static method": (
        "class C{i}:\n    @staticmethod\n    async def run(site, ctx):\n        await {next}(site, ctx)\n",
        "C{i}.run",
    ),
    "class method": (
        (
            "class C{i}:\n    @classmethod\n    async def run(cls, site, ctx):\n        await cls.go(site, ctx)\n"
            "    @classmethod\n    async def go(cls, site, ctx):\n        await {next}(site, ctx)\n"
        ),
        "C{i}.run",
    ),
    "class method of a subclass": (
        (
            "class B{i}:\n    @classmethod\n    async def run(cls, site, ctx):\n        await cls.go(site, ctx)\n"
            "class C{i}(B{i}):\n    @classmethod\n    async def go(cls, site, ctx):\n        await {next}(site, ctx)\n"
        ),
        "C{i}().run",
    ),
    "property": (
        (
            "class C{i}:\n    @property\n    def step(self):\n        return {next}\n"
            "    async def run(self, site, ctx):\n        await self.step(site, ctx)\n"
        ),
        "C{i}().run",
    ),
    "context manager": (
        (
            "@asynccontextmanager\nasync def m{i}(site, ctx):\n    yield ctx\n"
            "async def f{i}(site, ctx):\n    async with m{i}(site, ctx) as inner:\n        await {next}(site, inner)\n"
        ),
        "f{i}",
    ),
    "pair": ("async def f{i}(site, ctx):\n    pair = (site, ctx)\n    await {next}(*pair)\n", "f{i}"),
}
"""Ways to call `{next}(site, ctx)`: the text of the layer, and the expression that calls it."""


def operator_text(actions: Sequence[str], layers: Sequence[str]) -> str:
    """The source of a module with `reconcile`, which does the actions behind the layers, and its Controller."""
    body = "".join(f"    try:\n        {one}\n    except ApiError:\n        pass\n" for one in actions)
    # Some actions undo each other: an operator stops after three reconciles.
    start = "RUNS = []\nasync def leaf(site, ctx):\n    RUNS.append(site)\n    if len(RUNS) > 3:\n        return\n"
    text = [HEADER, f"{start}{body}"]
    called = "leaf"
    for number, name in enumerate(layers):
        code, expression = LAYERS[name]
        text.append(code.format(i=number, next=called))
        called = expression.format(i=number)
    text.append(f"reconcile = {called}\nshops = Controller(Shop, reconcile, owns(ConfigMap), name='shops')\n")
    return "\n".join(text)


def load_operator(folder: Path, text: str) -> ModuleType:
    """Imports the text as a module with a file, as the tracer needs it."""
    name = f"traced_operator_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
