"""Stores what it works on in an attribute, which another worker replaces while the first one waits.

Modelled on kubernetes-sigs/node-readiness-controller#331 (concurrent reconciles share a cache of the reconciler) and
pusher/faros#54. The fix uses a local variable.
"""

from typing import Any

from levelset import Context, Controller, Object, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Rule", "broken", "expected", "fixed"]


class RuleSpec(Spec):
    text: str


class Rule(Resource[RuleSpec, Status], api="zoo.example.dev/v1"):
    """A rule, which is compiled with the settings of its namespace."""


async def settings(rule: Object, ctx: Context) -> str:
    found = await ctx.client.find(ConfigMap, "settings", namespace=rule.namespace)
    return found.data.get("mode", "") if found else "default"


class SharedReconciler:
    """A reconciler with the rule in an attribute."""

    def __init__(self) -> None:
        self.text = ""

    async def reconcile(self, rule: Rule, ctx: Context) -> None:
        self.text = rule.spec.text
        mode = await settings(rule, ctx)
        await ctx.apply(config_map(rule, rule.name, text=self.text, mode=mode), owner=rule)


async def compile_locally(rule: Rule, ctx: Context) -> None:
    mode = await settings(rule, ctx)
    await ctx.apply(config_map(rule, rule.name, text=rule.spec.text, mode=mode), owner=rule)


def compiled_rules_are_their_own(state: State) -> None:
    texts = {one.name: one.data["text"] for one in state.list(ConfigMap)}
    mixed = [name for name, text in texts.items() if not text.startswith(name)]
    assert not mixed, f"the text of another rule: {mixed}"


async def scenario(user: Cluster) -> None:
    await user.create(Rule.new("allow", RuleSpec(text="allow all")))
    await user.advance(1)
    await user.create(Rule.new("deny", RuleSpec(text="deny some")))
    await user.settled()


def sharing() -> list[Controller[Any]]:
    return [Controller(Rule, SharedReconciler().reconcile, owns(ConfigMap), concurrency=2)]


def local() -> list[Controller[Any]]:
    return [Controller(Rule, compile_locally, owns(ConfigMap), concurrency=2)]


broken = Exploration(scenario, sharing, invariants=[compiled_rules_are_their_own])
fixed = Exploration(scenario, local, invariants=[compiled_rules_are_their_own])
expected = Expected("compiled_rules_are_their_own", "apply", "ConfigMap")
