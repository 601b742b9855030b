"""Templates: valid ones, missing dependencies, and invalid ones."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset import ObjectMeta, replace
from levelset_dcp.kinds import (
    ContainerExec,
    ContainerExecSpec,
    EnvVar,
    Executable,
    ExecutableProbe,
    ExecutableSpec,
    HealthProbe,
    HttpHeader,
    HttpProbe,
    ProbeProgram,
    ProbeSchedule,
    ProbeTemplate,
)
from levelset_dcp.workloads.templates import (
    DependencyNotReady,
    TemplateContext,
    evaluate,
    is_template,
    template_conditions,
    template_errors,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)

WEB = Executable(
    metadata=ObjectMeta(name="web", annotations={"team": "blue", "a/b": "c"}, labels={"tier": "front"}),
    spec=ExecutableSpec(executable_path="/bin/web", args=("one", "two")),
)
PORTS = {("", "db"): 5432, ("shop", "cache"): 6379}


def port(namespace: str, name: str) -> int:
    if (namespace, name) not in PORTS:
        raise DependencyNotReady(f"Service {name} does not exist yet")
    return PORTS[namespace, name]


def address(_namespace: str, _name: str) -> str:
    return "localhost"


CONTEXT = TemplateContext(root=WEB, functions={"portFor": port, "addressFor": address})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("{{.Name}}", "web"),
        ('tcp://{{ addressFor "db" }}:{{ portFor "db" }}/x', "tcp://localhost:5432/x"),
        ('{{ portFor "shop/cache" }}', "6379"),
        ("{{ portFor `db` }}", "5432"),
        ('{{ index .Annotations "team" }}', "blue"),
        ('{{ index .Annotations "none" }}', ""),
        ('{{index .Labels "tier"}}', "front"),
        ("{{ .Spec.ExecutablePath }}", "/bin/web"),
        ("{{ index .Spec.Args 1 }}", "two"),
        ("{{ .Spec.Start }}", "true"),
        ("{{ .Spec.WorkingDirectory }}|{{ .Spec.MonitorPID }}", "|<nil>"),
        ("{{ .ObjectMeta.Name }} {{ $.Name }}", "web web"),
        ("{{ .Spec.Args }} {{ .Labels }} {{ .Labels.tier }}", "[one two] map[tier:front] front"),
        ("a {{- .Name -}} b", "awebb"),
        ("a {{- .Name }} b", "aweb b"),
        ("a {{ .Name -}} b", "a webb"),
        ('{{- portFor "db" -}}', "5432"),
        ('{{ "db" | portFor }}', "5432"),
        ('{{ "db" | portFor | printf "%05d/%s" }}', '{{ "db" | portFor | printf "%05d/%s" }}'),
        ('{{ portFor "db" | printf "%06d" }}', "005432"),
        (
            '{{ printf "%s:%d %q %v%% %-4s|%x" (addressFor "db") (portFor "db") "a\\"b" true "x" 255 }}',
            'localhost:5432 "a\\"b" true% x   |ff',
        ),
        ('{{ if eq .Name "web" "api" }}yes{{ else }}no{{ end }}', "yes"),
        ('{{ if ne .Name "web" }}a{{ else if gt (len .Spec.Args) 1 }}b{{ else }}c{{ end }}', "b"),
        ("{{- if true -}} yes {{- end -}}", "yes"),
        ('{{ if and .Spec.Start (not .Spec.Stop) }}on{{ end }}{{ if or false "" }}off{{ end }}', "on"),
        ('{{ or .Spec.WorkingDirectory "/tmp" }}', "/tmp"),
        ('{{ if or true (portFor "later") }}not asked{{ end }}', "not asked"),
        ('{{ with index .Annotations "team" }}<{{ . }}|{{ $.Name }}>{{ end }}', "<blue|web>"),
        ('{{ with index .Annotations "none" }}x{{ else }}{{ .Name }}{{ end }}', "web"),
        ('{{ print "a" 1 2 "b" }}{{ print 1 2 }}', "a1 2b1 2"),
        ('{{ urlquery "a b&c" }}', "a+b%26c"),
        ('{{ lt 1 2 }} {{ ge "a" "b" }} {{ le 1.5 1.5 }} {{ -3 }}', "true false true -3"),
        ('{{ "}}" }}', "}}"),
        ("{{/* a }} comment */}}x", "x"),
        ("{{/* nothing */}}x", "x"),
        ('{{ "quoted \\"text\\"" }}', 'quoted "text"'),
        ("{{ .Labels.none }}|{{ print .Labels.none }}|{{ or nil }}", "<no value>|<nil>|<no value>"),
        ('{{ if .Labels.none }}a{{ else }}b{{ end }}{{ eq .Labels.none "" }}', "bfalse"),
        ("{{ eq .Spec.MonitorPID nil }} {{ ne .Labels nil }}", "true true"),
        ("{{ 0x1F }} {{ 1e3 }} {{ print 2.0 -1.5 }} {{ 1e21 }}", "31 1000 2 -1.5 1e+21"),
        ('{{ printf "%+d|%.0f|%+.1f|%05d" 2 2.4 1.5 -3 }}', "+2|2|+1.5|-0003"),
        ('{{ with index .Labels "none" }}a{{ else with index .Labels "tier" }}{{ . }}{{ end }}', "front"),
    ],
)
def test_a_template_is_evaluated(text: str, value: str) -> None:
    assert evaluate(text, CONTEXT) == value


@pytest.mark.parametrize(
    "text",
    [
        "{{", "{{ }}", "{{ .Name", "{{ unknown }}", "{{ .Nothing }}", "{{ portFor }}", '{{ portFor "" }}',
        "{{ portFor 3 }}", '{{ portFor "db" "db" }}', "{{ .Spec }}", '{{ index .Spec.Args "x" }}',
        "{{ index .Spec.Args 9 }}", '{{ "open }}', "{{ .ObjectMeta }}", "{{ .name }}",
        "{{ .Name }} {{ if }}", "{{ .Name }} {{", "{{-", "{{ (.Name }}", "{{ .Name | }}", "{{ .Name }}{{ end }}",
        "{{ index .Labels .Annotations }}", "{{ index .Labels 1 }}", "{{ index .Spec.Args true }}", "{{ nil }}",
        "{{ eq .Labels .Labels }}", "{{ eq .Spec.MonitorPID 1 }}", "{{ lt true false }}", "{{ len .Labels.none }}",
        "{{ ne 1 2 3 }}", '{{ printf "%#v" 1 }}', "{{ with .Name }}{{ else if .Name }}{{ end }}", "{{ .Labels.a.b }}",
        '{"a": {{"b": 1}}}', "{{ (index .Spec.Args 0).X }}", pytest.param("{{" + "(" * 9999, id="many parentheses"),
        pytest.param("{{ if true }}" * 999, id="many branches"),
    ],
)  # fmt: skip
def test_an_invalid_template_is_left_unchanged(text: str) -> None:
    assert evaluate(text, CONTEXT) == text
    assert list(template_errors(replace(WEB, spec=replace(WEB.spec, args=(text,)))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{{ .Name | default "x" }}', '"default" is not defined; there are addressFor, addressForServing, and, '),
        ("{{ range .Spec.Args }}{{ . }}{{ end }}", "range is not supported"),
        ('{{ template "x" }}', "template is not supported"),
        ("{{ $x := .Name }}", "variables are not supported: $x"),
        ("{{ html .Name }}", 'function "html" is not defined'),
        ("{{ if .Name }}", "if has no end"),
        ("{{ .Spec.Nothing }}", "there is no field .Spec.Nothing"),
        ("{{ eq .Name 1 }}", "web and 1 have different types"),
        ('{{ printf "%e" 1 }}', "printf: %e is not supported for 1"),
        ("{{ .Name", "an action is not closed with }}"),
        ("{{ portFor }}", "portFor needs the name of a Service"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_named_in_the_status(text: str, message: str) -> None:
    env = (EnvVar(name="A", value='{{ portFor "later" }}'), EnvVar(name="B", value=text))
    workload = replace(WEB, spec=replace(WEB.spec, env=env))
    (condition,) = template_conditions((), workload, NOW)
    assert (condition.type, condition.status, condition.reason) == ("TemplatesEvaluated", "False", "InvalidTemplate")
    assert condition.message.startswith("spec.env[B]: ")
    assert message in condition.message
    assert template_conditions((condition,), WEB, NOW) == ()


def test_the_templates_of_probes_and_commands_are_checked() -> None:
    schedule, text = ProbeSchedule(interval="1s"), "{{ range }}"
    http = HttpProbe(url=text, headers=(HttpHeader(name="h", value=text),))
    program = ProbeTemplate(spec=ProbeProgram(executable_path="x", args=(text,)))
    probes = (
        HealthProbe(name="a", type="HTTP", schedule=schedule, http_probe=http),
        HealthProbe(
            name="b",
            type="Executable",
            schedule=schedule,
            executable_probe=ExecutableProbe(executable_template=program),
        ),
    )
    assert [
        one.partition(": ")[0] for one in template_errors(replace(WEB, spec=replace(WEB.spec, health_probes=probes)))
    ] == [
        "spec.healthProbes[a].httpProbe.url",
        "spec.healthProbes[a].httpProbe.headers[h]",
        "spec.healthProbes[b] args[0]",
    ]
    command = ContainerExec.new("one", ContainerExecSpec(container_name="a", command="b", args=(text, "{{ .Any }}")))
    assert list(template_errors(command)) == ["spec.args[0]: range is not supported"]


def test_a_missing_service_raises_dependency_not_ready() -> None:
    with pytest.raises(DependencyNotReady, match="Service later does not exist yet"):
        evaluate('{{ .Name }} {{ portFor "later" }}', CONTEXT)


@given(st.text(alphabet='{}().-|$"`\\ aNmeifd/*0', max_size=60))
def test_no_text_raises(text: str) -> None:
    made = evaluate(text, CONTEXT)
    assert is_template(text) or made == text
