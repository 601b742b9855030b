"""Templates: valid ones, missing dependencies, and invalid ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset_dcp.workloads.templates import DependencyNotReady, TemplateContext, evaluate, is_template

TREE = {
    "metadata": {"name": "web", "annotations": {"team": "blue", "a/b": "c"}, "labels": {"tier": "front"}},
    "spec": {"executablePath": "/bin/web", "args": ["one", "two"], "start": True},
}
PORTS = {("", "db"): 5432, ("shop", "cache"): 6379}


def port(namespace: str, name: str) -> int:
    if (namespace, name) not in PORTS:
        raise DependencyNotReady(f"Service {name} does not exist yet")
    return PORTS[namespace, name]


CONTEXT = TemplateContext(name="web", tree=TREE, functions={"portFor": port, "addressFor": lambda *_: "localhost"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("{{.Name}}", "web"),
        ("{{ .ObjectMeta }}", "{{ .ObjectMeta }}"),
        ('tcp://{{ addressFor "db" }}:{{ portFor "db" }}/x', "tcp://localhost:5432/x"),
        ('{{ portFor "shop/cache" }}', "6379"),
        ("{{ portFor `db` }}", "5432"),
        ('{{ index .Annotations "team" }}', "blue"),
        ('{{ index .Annotations "none" }}', ""),
        ('{{index .Labels "tier"}}', "front"),
        ("{{ .Spec.ExecutablePath }}", "/bin/web"),
        ("{{ index .Spec.Args 1 }}", "two"),
        ("{{ .Spec.Start }}", "true"),
        ("a {{- .Name -}} b", "awebb"),
        ("{{/* nothing */}}x", "x"),
        ('{{ "quoted \\"text\\"" }}', 'quoted "text"'),
    ],
)
def test_a_template_is_evaluated(text: str, value: str) -> None:
    assert evaluate(text, CONTEXT) == value


@pytest.mark.parametrize(
    "text",
    [
        "{{", "{{ }}", "{{ .Name", "{{ unknown }}", "{{ .Nothing }}", "{{ portFor }}", '{{ portFor "" }}',
        "{{ portFor 3 }}", '{{ portFor "db" "db" }}', "{{ .Spec }}", '{{ index .Spec.Args "x" }}',
        "{{ index .Spec.Args 9 }}", '{{ "open }}',
        "{{ .Name }} {{ if }}", "{{ .Name }} {{",
    ],
)  # fmt: skip
def test_an_invalid_template_is_left_unchanged(text: str) -> None:
    assert evaluate(text, CONTEXT) == text


def test_a_missing_service_raises_dependency_not_ready() -> None:
    with pytest.raises(DependencyNotReady, match="Service later does not exist yet"):
        evaluate('{{ .Name }} {{ portFor "later" }}', CONTEXT)


@given(st.text(alphabet='{}.-"`\\ aNme/*0', max_size=40))
def test_no_text_raises(text: str) -> None:
    made = evaluate(text, CONTEXT)
    assert is_template(text) or made == text
