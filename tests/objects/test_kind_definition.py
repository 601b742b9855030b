import inspect

import pytest

from levelset.errors import BadName, ConfigError
from levelset.objects.kind_definition import Scale, define, definition_of, plural_of
from levelset.objects.ref import GroupVersionResource
from levelset.objects.resource import Object
from tests.objects.samples import Region, Settings, Website, blog


def test_a_class_declares_its_names_scope_and_subresources():
    definition = definition_of(Website)
    assert str(definition.gvk) == "example.dev/v1 Website"
    assert definition.gvr == GroupVersionResource("example.dev", "v1", "websites")
    assert (definition.singular, definition.list_kind) == ("website", "WebsiteList")
    assert definition.namespaced
    assert definition.short_names == ("ws",)
    assert definition.categories == ("all",)
    assert definition.scale == Scale(status=".status.ready")
    assert definition.columns[0].name == "Ready"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A.",
        "A.\n\n    B\n      C\n    ",
        "\n    A\n\n\tB\n    \n",
        "A\n  B\n C\n\n",
        "  A  \n\n    B  \n\n\n",
        "A\nB",
        "\n\n",
    ],
)
def test_the_description_is_the_docstring_without_indentation(text):
    made = type(Settings)("Noted", (Object,), {"__doc__": text, "__module__": __name__}, api="notes.example.dev/v1")
    assert definition_of(made).description == inspect.cleandoc(text)


def test_the_docstring_is_the_description():
    assert definition_of(Website).description == "A site served from a container image."
    assert definition_of(Settings).description == ""


def test_a_resource_with_a_status_has_the_status_subresource():
    assert definition_of(Website).status
    assert not definition_of(Region).status
    assert not definition_of(Settings).status


def test_an_object_leads_to_the_definition_of_its_class():
    assert definition_of(blog()) is definition_of(Website)


def test_a_class_without_api_does_not_declare_a_kind():
    class Draft(Object):
        pass

    with pytest.raises(ConfigError, match="Draft does not declare a kind"):
        definition_of(Draft)


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Website", "websites"),
        ("Policy", "policies"),
        ("Gateway", "gateways"),
        ("Ingress", "ingresses"),
        ("Box", "boxes"),
        ("Batch", "batches"),
    ],
)
def test_the_default_plural_follows_english_rules(kind, plural):
    assert plural_of(kind) == plural


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"api": "nope/"}, BadName, "apiVersion"),
        ({"api": "a.b/v1", "kind": "web site"}, BadName, "letters, digits"),
        ({"api": "a.b/v1", "plural": "Websites"}, BadName, "plural 'Websites'"),
        ({"api": "a.b/v1", "short_names": "ws"}, ConfigError, r"write \['ws'\]"),
        ({"api": "a.b/v1", "short_names": [1]}, BadName, "short_names 1"),
        ({"api": "a.b/v1", "scope": "cluster"}, ConfigError, "'Namespaced' or 'Cluster'"),
    ],
)
def test_a_wrong_keyword_is_named(keywords, error, words):
    with pytest.raises(error, match=words):
        define("Website", **keywords)


def test_a_version_says_whether_it_is_served_stored_deprecated_and_what_it_is_selected_by():
    plain = define("Website", api="example.dev/v1")
    assert (plain.served, plain.stored, plain.deprecated, plain.deprecation, plain.selectable) == (
        *(True, False, False, ""),
        (),
    )
    made = define(
        "Website", api="example.dev/v1", served=False, stored=True, deprecated="use v2", selectable=[".spec.color"]
    )
    assert (made.served, made.stored, made.deprecated, made.deprecation, made.selectable) == (
        *(False, True, True, "use v2"),
        (".spec.color",),
    )
    assert define("Website", api="example.dev/v1", deprecated=True).deprecation == ""
