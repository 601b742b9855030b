"""The recorded costs of the rules of the corpus, and how ours are compared with them."""

from scripts.corpus_costs import compare_costs, our_costs, read_costs

from tests.corpus.collection import Contents

RULES = [{"rule": "self.b > 1"}, {"rule": "self.a == 'x'", "messageExpression": "'no ' + self.a"}]
ITEM = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 10}, "b": {"type": "integer"}},
    "x-kubernetes-validations": RULES,
}
SCHEMA = {"type": "object", "properties": {"items": {"type": "array", "maxItems": 4, "items": ITEM}}}
DEFINITION = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": SCHEMA}}, {"name": "v2"}]}}


def test_the_costs_of_a_schema_are_in_the_order_of_the_paths_of_its_rules() -> None:
    costs = our_costs([("module", Contents({"as.example.com": DEFINITION}, ()))])
    # Of the first rule, of the messageExpression, and of the second rule; rules may be evaluated for four items.
    assert costs == {"module as.example.com v1": [12, 7, 12]}


def test_a_schema_whose_costs_differ_is_named_with_the_first_difference() -> None:
    recorded = {"a": [1, 2, 3], "b": [1]}
    assert compare_costs(recorded, {"a": [1, 2, 3]}) == []
    assert compare_costs(recorded, {"a": [1, 4, 5]}) == ["costs a: 3 and 3 rules, [(2, 4)]"]
    assert compare_costs(recorded, {"new": [1]}) == ["costs new: 0 and 1 rules, []"]
    assert compare_costs(recorded, {"a": [1, 2, 3]}, is_whole=True) == ["costs b: 1 and 0 rules, []"]


def test_costs_of_thousands_of_rules_are_recorded() -> None:
    recorded = read_costs()
    assert (len(recorded), sum(map(len, recorded.values()))) == (266, 3132)
