import pytest

from levelset.apiserver.authn.request_attributes import Attempt
from levelset.apiserver.authz.rbac import Grant, Grants, read_rule

PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


def grants(*rules: dict[str, list[str]]) -> Grants:
    return Grants([Grant(read_rule(rule), f"rule {place}") for place, rule in enumerate(rules)])


@pytest.mark.parametrize(
    ("change", "attempt", "allowed"),
    [
        ({}, Attempt("get", "", "pods"), True),
        ({}, Attempt("list", "", "pods"), False),
        ({}, Attempt("get", "apps", "pods"), False),
        ({}, Attempt("get", "", "services"), False),
        ({}, Attempt("get", "", "pods", "log"), False),
        ({}, Attempt("GET", "", "pods"), False),
        ({"verbs": ["*"]}, Attempt("anything", "", "pods"), True),
        ({"apiGroups": ["*"]}, Attempt("get", "example.com", "pods"), True),
        ({"resources": ["*"]}, Attempt("get", "", "pods", "log"), True),
        ({"resources": ["pods/log"]}, Attempt("get", "", "pods", "log"), True),
        ({"resources": ["pods/log"]}, Attempt("get", "", "pods"), False),
        ({"resources": ["*/log"]}, Attempt("get", "", "jobs", "log"), True),
        ({"resources": ["*/log"]}, Attempt("get", "", "jobs"), False),
        ({"resources": ["pods/*"]}, Attempt("get", "", "pods", "log"), False),
        ({"resourceNames": ["a"]}, Attempt("get", "", "pods", name="a"), True),
        ({"resourceNames": ["a"]}, Attempt("get", "", "pods", name="b"), False),
        ({"resourceNames": ["a"]}, Attempt("get", "", "pods"), False),
    ],
)
def test_a_rule_allows_what_it_names_and_nothing_else(
    change: dict[str, list[str]], attempt: Attempt, allowed: bool
) -> None:
    found = grants({**PODS, **change})
    assert [found.allows(attempt), found.allows(attempt)] == [allowed, allowed]  # the second time from memory
    assert bool(found.source(attempt)) is allowed


@pytest.mark.parametrize(
    ("url", "path", "allowed"),
    [
        ("*", "/anything", True),
        ("/a", "/a", True),
        ("/a", "/a/b", False),
        ("/a/*", "/a/b/c", True),
        ("/a/*", "/a", False),
        ("/a/*", "/ab", False),
        ("/a*", "/ab", True),
        ("/a/*/c", "/a/b/c", False),
    ],
)
def test_a_star_at_the_end_of_a_path_stands_for_whatever_follows(url: str, path: str, allowed: bool) -> None:
    found = grants({"verbs": ["get"], "nonResourceURLs": [url]})
    assert found.allows(Attempt("get", path=path)) is allowed
    assert not found.allows(Attempt("post", path=path))


def test_rules_for_resources_give_no_paths_and_the_other_way_round() -> None:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert not grants(everything).allows(Attempt("get", path="/metrics"))
    assert not grants({"verbs": ["*"], "nonResourceURLs": ["*"]}).allows(Attempt("get", "", "pods"))


def test_the_names_of_several_rules_add_up() -> None:
    found = grants({**PODS, "resourceNames": ["a"]}, {**PODS, "resourceNames": ["b"]})
    assert found.names("get", "", "pods") == frozenset({"a", "b"})
    assert found.names("list", "", "pods") is False
    assert grants({**PODS, "resourceNames": ["a"]}, PODS).names("get", "", "pods") is True


def test_made_up_resources_do_not_fill_the_memory() -> None:
    found = grants(PODS)
    for number in range(5000):
        assert not found.allows(Attempt("get", "", f"r{number}"))
    assert len(found._known) <= 1024
