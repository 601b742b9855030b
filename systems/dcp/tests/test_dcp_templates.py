"""Templates in arguments and variables: what they give, what they wait for, and what is left as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset_dcp.templates import NotYet, Scene, evaluate, is_template

TREE = {
    "metadata": {"name": "web", "annotations": {"team": "blue", "a/b": "c"}, "labels": {"tier": "front"}},
    "spec": {"executablePath": "/bin/web", "args": ["one", "two"], "start": True},
}
PORTS = {("", "db"): 5432, ("shop", "cache"): 6379}


def port(namespace: str, name: str) -> int:
    if (namespace, name) not in PORTS:
        raise NotYet(f"Service {name} is not there yet")
    return PORTS[namespace, name]


SCENE = Scene(name="web", tree=TREE, functions={"portFor": port, "addressFor": lambda *_: "localhost"})


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
    assert evaluate(text, SCENE) == value


@pytest.mark.parametrize(
    "text",
    [
        "{{", "{{ }}", "{{ .Name", "{{ unknown }}", "{{ .Nothing }}", "{{ portFor }}", '{{ portFor "" }}',
        "{{ portFor 3 }}", '{{ portFor "db" "db" }}', "{{ .Spec }}", '{{ index .Spec.Args "x" }}',
        "{{ index .Spec.Args 9 }}", '{{ "open }}',
        "{{ .Name }} {{ if }}", "{{ .Name }} {{",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_left_as_it_is(text: str) -> None:
    assert evaluate(text, SCENE) == text


def test_what_is_not_there_yet_is_waited_for() -> None:
    with pytest.raises(NotYet, match="Service later is not there yet"):
        evaluate('{{ .Name }} {{ portFor "later" }}', SCENE)


@given(st.text(alphabet='{}.-"`\\ aNme/*0', max_size=40))
def test_no_text_makes_it_fail(text: str) -> None:
    made = evaluate(text, SCENE)
    assert is_template(text) or made == text
