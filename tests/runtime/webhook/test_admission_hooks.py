from functools import partial
from typing import Any

import pytest

from levelset import GroupVersionKind, LabelSelector, OnlyMetadata, Unstructured
from levelset.errors import ConfigError
from levelset.runtime.webhook import AdmissionHook, MatchCondition, Review, defaults, validates
from tests.runtime.webhook.site_kinds import Settings, Site, SiteSpec, request, site

POD = GroupVersionKind("", "v1", "Pod")


def check(_: Site) -> None:
    pass


def check_tree(_: Unstructured) -> None:
    pass


def test_a_hook_is_named_by_its_function_and_its_kind_and_so_is_its_path() -> None:
    def Check_The_Site(_: Site) -> None:
        pass

    assert validates(Site, check).name == "check.sites.example.dev"
    assert validates(Site, check).path == "/validate/check.sites.example.dev"
    assert defaults(Settings, lambda one: one).name == "lambda.configmaps.core"
    assert validates(Site, Check_The_Site).name == "check-the-site.sites.example.dev"
    assert defaults(Site, lambda one: one, name="fill.shop.dev").path == "/default/fill.shop.dev"


def test_a_hook_is_for_creates_and_updates_of_the_object_by_default() -> None:
    hook, place = validates(Site, check), ("example.dev", "v2", "sites")
    assert hook.matches("CREATE", place, "")
    assert hook.matches("UPDATE", place, "")
    assert not hook.matches("DELETE", place, "")
    assert not hook.matches("UPDATE", place, "status")
    assert not hook.matches("UPDATE", ("example.dev", "v1", "sites"), "")


def test_subresources_replace_the_object_itself() -> None:
    place = ("example.dev", "v2", "sites")
    assert not validates(Site, check, subresources="status").matches("UPDATE", place, "")
    both = validates(Site, check, subresources=("", "status"))
    assert both.matches("UPDATE", place, "")
    assert both.matches("UPDATE", place, "status")
    every = validates(POD, check_tree, subresources="*", on=("connect",))
    assert every.matches("CONNECT", ("", "v1", "pods"), "exec")
    assert not every.matches("CONNECT", ("", "v1", "pods"), "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": "creates"}, "on='creates' must be one or several of connect, create, delete, update"),
        ({"on": ()}, "must be one or several"),
        ({"timeout": 31}, "between 1 and 30"),
        ({"timeout": 0.5}, "between 1 and 30"),
        ({"failure_policy": "fail"}, "must be one of Fail, Ignore"),
        ({"side_effects": "Some"}, "must be one of None, NoneOnDryRun"),
        ({"name": "short.name"}, "must be a domain name such as"),
        ({"name": "Not.A.Name"}, "must be a domain name such as"),
        ({"object_selector": "a in"}, "object_selector='a in' is not a selector"),
        ({"subresources": "scale"}, "the object of sites/scale is not a Site"),
        ({"on": "connect"}, "the object of a connection to sites is not a Site"),
        ({"when": MatchCondition("", "true", bool)}, "needs a name such as not-paused"),
        ({"when": MatchCondition("a", " ", bool)}, "such as not-paused and CEL"),
        (
            {"when": [MatchCondition("a", "true", bool), MatchCondition("a", "true", bool)]},
            "each with a unique name",
        ),
        ({"selector": "a=b"}, "unknown option selector; there are failure_policy"),
    ],
)
def test_invalid_options_of_a_hook_raise_a_config_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validates(Site, check, **options)
    assert message in str(caught.value)


def test_a_validating_hook_is_never_reinvoked() -> None:
    assert defaults(Site, lambda one: one, reinvoke=True).reinvokes
    with pytest.raises(ConfigError, match="reinvoke is for defaults"):
        validates(Site, check, reinvoke=True)


def test_a_mutating_hook_for_deletes_raises_a_config_error() -> None:
    with pytest.raises(ConfigError, match="use validates"):
        defaults(Site, lambda one: one, on=("create", "delete"))


def test_anything_but_kinds_and_functions_raises_a_config_error() -> None:
    wrong: list[Any] = [SiteSpec, OnlyMetadata(Site)]
    for kind in wrong:
        with pytest.raises(ConfigError):
            validates(kind, check)
    with pytest.raises(ConfigError, match="needs at least one function"):
        validates(Site)
    functions: list[Any] = [lambda: None, lambda a, b, c: (a, b, c), 3, lambda a, *, b: (a, b)]
    for function in functions:
        with pytest.raises(ConfigError):
            validates(Site, function)


async def test_a_function_is_called_by_its_signature() -> None:
    seen: list[Any] = []

    def only_review(review: Review[Site]) -> None:
        seen.append(type(review))

    def quoted(one: "Review[Site]") -> None:
        seen.append(type(one))

    def unsaid(review):
        seen.append(type(review))

    def with_default(one: Site, level: int = 3) -> None:
        seen.append((type(one), level))

    class Callable:
        def __call__(self, one: Site, review: Review[Site]) -> None:
            seen.append((type(one), type(review)))

    bound = partial(lambda word, one: seen.append((word, type(one))), "word")
    functions: list[Any] = [only_review, quoted, unsaid, with_default, Callable(), bound]
    assert (await validates(Site, *functions).review(request(site())))["allowed"]
    assert seen == [Review, Review, Review, (Site, 3), (Site, Review), ("word", Site)]


def test_selectors_are_text_or_values() -> None:
    hook = validates(Site, check, namespace_selector="env=prod", object_selector=LabelSelector.of(app="shop"))
    assert str(hook.namespace_selector) == "env=prod"
    assert str(hook.object_selector) == "app=shop"


def test_the_repr_of_a_hook_names_its_kind_and_functions() -> None:
    hook: AdmissionHook = validates(Site, check)
    assert repr(hook) == "validates(example.dev/v2 Site, check.sites.example.dev)"
    assert validates(POD, check_tree, plural="podlings").plural == "podlings"
