"""The effective environment: precedence, hidden and visible variables, and .env files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset_dcp.kinds import EnvVar, Executable, ExecutableSpec
from levelset_dcp.workloads.environment import effective_of, read_env_file
from levelset_dcp.workloads.templates import TemplateContext

CONTEXT = TemplateContext(root=Executable.new("web", ExecutableSpec(executable_path="/bin/web")))


def test_the_spec_overrides_files_and_files_override_the_ambient_environment() -> None:
    made = effective_of(
        ["--name={{ .Name }}"],
        [EnvVar(name="C", value="spec {{ .Name }}")],
        context=CONTEXT,
        ambient={"A": "around", "B": "around", "C": "around", "SECRET": "{{ .Name }}"},
        files=[{"B": "file", "C": "file"}, {"D": "second"}],
    )
    assert made.env == {"A": "around", "B": "file", "C": "spec web", "D": "second", "SECRET": "web"}
    assert made.args == ("--name=web",)
    assert [one.name for one in made.shown] == ["B", "C", "D"]


def test_variables_of_the_manager_are_not_inherited() -> None:
    made = effective_of(
        [], [EnvVar(name="DCP_X", value="1")], context=CONTEXT, ambient={"DEBUG_SESSION_X": "1", "A": "2"}
    )
    assert made.env == {"A": "2"}
    assert made.shown == ()


def test_without_ambient_a_program_gets_only_explicit_variables() -> None:
    assert effective_of([], [EnvVar(name="A")], context=CONTEXT).env == {"A": ""}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A=1\nB = two words \n", {"A": "1", "B": "two words"}),
        ("# no\nexport A=1 # said\n\nnot a variable\n", {"A": "1"}),
        ('A=\'$x \\n\'\nB="line\\nnext \\"q\\""\n', {"A": "$x \\n", "B": 'line\nnext "q"'}),
        ('A="two\nlines"\nB=1', {"A": "two\nlines", "B": "1"}),
        ('A="never closed\nB=1', {"A": "never closed\nB=1"}),
        ("A=\nA=2\n", {"A": "2"}),
    ],
)
def test_an_env_file_is_parsed_like_a_shell(text: str, found: dict[str, str]) -> None:
    assert read_env_file(text) == found


@given(st.text(max_size=60))
def test_no_env_file_raises(text: str) -> None:
    assert all(isinstance(value, str) for value in read_env_file(text).values())
