"""The estimated costs of rules, recorded with the compiler of kube-apiserver 1.36.4 (None: it refuses the rule)."""

import json
from pathlib import Path

import pytest

from levelset.cel import CompileError, Declarations, compile_rule, declared_type

RECORDED = json.loads(Path(__file__).with_name("recorded_costs.json").read_text("utf-8"))
KIND = declared_type(RECORDED["schema"])


@pytest.mark.parametrize("part", range(8))
def test_a_rule_costs_what_kube_apiserver_estimates(part: int):
    assert KIND is not None
    known = Declarations({"self": KIND, "oldSelf": KIND})
    different: list[tuple[str, int | None, int | None]] = []
    for rule, cost in RECORDED["rules"][part::8]:
        try:
            found = compile_rule(rule, known).cost.most
        except CompileError:
            found = None
        if found != cost:
            different.append((rule, found, cost))
    assert not different


def test_most_recorded_rules_are_accepted():
    assert sum(cost is not None for _, cost in RECORDED["rules"]) > 500
