import pytest

from levelset.apiserver.authn.request_attributes import RequestAttributes
from levelset.apiserver.authz.rbac import Grant, Grants, read_rule

PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


def grants(*rules: dict[str, list[str]]) -> Grants:
    return Grants([Grant(read_rule(rule), f"rule {place}") for place, rule in enumerate(rules)])


@pytest.mark.parametrize(
    ("change", "attempt", "allowed"),
    [
        ({}, RequestAttributes("get", "", "pods"), True),
        ({}, RequestAttributes("list", "", "pods"), False),
        ({}, RequestAttributes("get", "apps", "pods"), False),
        ({}, RequestAttributes("get", "", "services"), False),
        ({}, RequestAttributes("get", "", "pods", "log"), False),
        ({}, RequestAttributes("GET", "", "pods"), False),
        ({"verbs": ["*"]}, RequestAttributes("anything", "", "pods"), True),
        ({"apiGroups": ["*"]}, RequestAttributes("get", "example.com", "pods"), True),
        ({"resources": ["*"]}, RequestAttributes("get", "", "pods", "log"), True),
        ({"resources": ["pods/log"]}, RequestAttributes("get", "", "pods", "log"), True),
        ({"resources": ["pods/log"]}, RequestAttributes("get", "", "pods"), False),
        ({"resources": ["*/log"]}, RequestAttributes("get", "", "jobs", "log"), True),
        ({"resources": ["*/log"]}, RequestAttributes("get", "", "jobs"), False),
        ({"resources": ["pods/*"]}, RequestAttributes("get", "", "pods", "log"), False),
        ({"resourceNames": ["a"]}, RequestAttributes("get", "", "pods", name="a"), True),
        ({"resourceNames": ["a"]}, RequestAttributes("get", "", "pods", name="b"), False),
        ({"resourceNames": ["a"]}, RequestAttributes("get", "", "pods"), False),
    ],
)
def test_a_rule_allows_what_it_names_and_nothing_else(
    change: dict[str, list[str]], attempt: RequestAttributes, allowed: bool
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
def test_a_trailing_star_in_a_path_matches_any_suffix(url: str, path: str, allowed: bool) -> None:
    found = grants({"verbs": ["get"], "nonResourceURLs": [url]})
    assert found.allows(RequestAttributes("get", path=path)) is allowed
    assert not found.allows(RequestAttributes("post", path=path))


def test_resource_rules_grant_no_paths_and_path_rules_no_resources() -> None:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert not grants(everything).allows(RequestAttributes("get", path="/metrics"))
    assert not grants({"verbs": ["*"], "nonResourceURLs": ["*"]}).allows(RequestAttributes("get", "", "pods"))


def test_the_names_of_several_rules_add_up() -> None:
    found = grants({**PODS, "resourceNames": ["a"]}, {**PODS, "resourceNames": ["b"]})
    assert found.allowed_names("get", "", "pods") == frozenset({"a", "b"})
    assert found.allowed_names("list", "", "pods") is False
    assert grants({**PODS, "resourceNames": ["a"]}, PODS).allowed_names("get", "", "pods") is True


def test_requests_for_made_up_resources_do_not_grow_the_cache() -> None:
    found = grants(PODS)
    for number in range(5000):
        assert not found.allows(RequestAttributes("get", "", f"r{number}"))
    assert len(found._decisions) <= 1024
