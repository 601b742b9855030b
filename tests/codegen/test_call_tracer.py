"""The call tracer: which requests reconcilers can send, and which calls it cannot follow."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from levelset.codegen.call_records import CallRecords, compare_rules
from levelset.codegen.call_tracer import ContextCall, trace_calls
from levelset.codegen.rbac import infer_permissions, unfollowed_calls
from levelset.testing import open_cluster
from levelset.testing.virtual_time import run
from tests.codegen.operator_shapes import ACTIONS, HEADER, LAYERS, load_operator, operator_text


def traced(folder: Path, code: str) -> Any:
    module = load_operator(folder, f"{HEADER}\n{code}")
    return trace_calls(module.reconcile, kind=module.Shop)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_status_write_is_found_behind_every_kind_of_layer(tmp_path: Path, layer: str) -> None:
    module = load_operator(tmp_path, operator_text([ACTIONS[0]], [layer]))
    found = trace_calls(module.reconcile, kind=module.Shop)
    assert found.calls == {ContextCall("set_status", is_own=True)}
    assert found.unfollowed == ()
    assert found.untyped == ()


async def requests_of(module: Any) -> CallRecords:
    """Runs an operator until it is settled, and returns its requests."""
    calls = CallRecords()
    async with open_cluster() as cluster, cluster.running(module.shops, faults=[calls.hook]):
        await cluster.create(module.Shop.new("one", module.ShopSpec()))
        await cluster.settled()
    return calls


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=4, unique=True),
    layers=st.lists(st.sampled_from(sorted(LAYERS)), min_size=0, max_size=4),
)
def test_the_requests_of_random_operators_are_allowed_by_the_inferred_permissions(
    tmp_path: Path, actions: list[str], layers: list[str]
) -> None:
    module = load_operator(tmp_path, operator_text(actions, layers))
    assert unfollowed_calls(module.shops) == ()
    permissions = infer_permissions([module.shops])
    calls = run(requests_of(module))
    missing = [one for one in compare_rules(calls, permissions) if "no rule allows it" in one]
    assert missing == []
    assert len(calls) > 0


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("await site.spec.plugin(ctx)", "site.spec.plugin()"),
        ("await globals()['x'](site, ctx)", "globals()['x']()"),
        ("await getattr(ctx, 'app' + 'ly')(site)", "getattr()"),
        ("site.spec.holder = ctx", "the assignment to site.spec.holder"),
        ("go = partial(site.spec.plugin, ctx)", "partial()"),
        ("await site.spec.run(ctx.client)", "site.spec.run()"),
        ("await site.spec.run(ctx.apply)", "site.spec.run()"),
    ],
)
def test_a_call_that_cannot_be_followed_is_reported_with_its_line(tmp_path: Path, line: str, what: str) -> None:
    (found,) = traced(tmp_path, f"async def reconcile(site, ctx):\n    {line}\n").unfollowed
    assert found.what == what
    assert Path(found.file).read_text(encoding="utf-8").splitlines()[found.line - 1].strip() == line
    assert str(found).startswith(f"could not follow {what} (")


@pytest.mark.parametrize(
    "line",
    [
        "print(ctx)",
        "ctx.log.info('seen', who=site)",
        "isinstance(ctx, Context)",
        "await asyncio.wait_for(ctx.live(site.ref), 5)",
        "things = []; things.append(ctx); things[0].record(site, 'A', 'b')",
    ],
)
def test_a_harmless_use_of_the_context_is_not_reported(tmp_path: Path, line: str) -> None:
    assert traced(tmp_path, f"async def reconcile(site, ctx):\n    {line}\n").unfollowed == ()


def test_a_parameter_of_an_abstract_class_is_followed_into_its_subclasses(tmp_path: Path) -> None:
    code = (
        "class Engine:\n    async def start(self, site, ctx): raise NotImplementedError\n"
        "class Real(Engine):\n    async def start(self, site, ctx): await ctx.delete(site)\n"
        "@dataclass\nclass Reconciler:\n    engine: Engine\n"
        "    async def run(self, site, ctx): await self.engine.start(site, ctx)\n"
        "async def reconcile(site, ctx): await Reconciler.run(Reconciler(site.engine), site, ctx)\n"
    )
    assert traced(tmp_path, code).calls == {ContextCall("delete", is_own=True)}


def test_a_write_of_unknown_kind_counts_for_all_kinds_and_is_reported_without_owned_ones(tmp_path: Path) -> None:
    code = "async def reconcile(site, ctx):\n    await ctx.apply(site.spec.template)\n"
    code += "alone = Controller(Shop, reconcile)\nowner = Controller(Shop, reconcile, owns(ConfigMap))\n"
    module = load_operator(tmp_path, f"{HEADER}\n{code}")
    found = trace_calls(module.reconcile, kind=module.Shop)
    assert found.calls == {ContextCall("apply", is_own=True), ContextCall("apply", is_own=False)}
    assert [one.what for one in unfollowed_calls(module.alone)] == ["the kind of what ctx.apply() writes"]
    assert unfollowed_calls(module.owner) == ()


def test_a_recursive_helper_ends(tmp_path: Path) -> None:
    code = "async def reconcile(site, ctx, *more):\n    await reconcile(site, ctx, *more, more)\n"
    code += "    await ctx.save(site)\n"
    assert ContextCall("save", is_own=True) in traced(tmp_path, code).calls
