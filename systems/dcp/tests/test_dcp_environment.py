"""The variables of a program: their order, which are hidden, which are shown, and what a .env file says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset_dcp.environment import effective_of, read_env_file
from levelset_dcp.kinds import EnvVar
from levelset_dcp.templates import Scene

SCENE = Scene(name="web")


def test_the_spec_wins_over_files_and_files_over_what_is_around() -> None:
    made = effective_of(
        ["--name={{ .Name }}"],
        [EnvVar(name="C", value="spec {{ .Name }}")],
        scene=SCENE,
        ambient={"A": "around", "B": "around", "C": "around", "SECRET": "{{ .Name }}"},
        files=[{"B": "file", "C": "file"}, {"D": "second"}],
    )
    assert made.env == {"A": "around", "B": "file", "C": "spec web", "D": "second", "SECRET": "web"}
    assert made.args == ("--name=web",)
    assert [one.name for one in made.shown] == ["B", "C", "D"]


def test_what_belongs_to_the_manager_is_kept_from_programs() -> None:
    made = effective_of([], [EnvVar(name="DCP_X", value="1")], scene=SCENE, ambient={"DEBUG_SESSION_X": "1", "A": "2"})
    assert made.env == {"A": "2"}
    assert made.shown == ()


def test_without_ambient_a_program_gets_what_is_named_only() -> None:
    assert effective_of([], [EnvVar(name="A")], scene=SCENE).env == {"A": ""}


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
def test_a_file_is_read_as_shells_would(text: str, found: dict[str, str]) -> None:
    assert read_env_file(text) == found


@given(st.text(max_size=60))
def test_no_file_makes_it_fail(text: str) -> None:
    assert all(isinstance(value, str) for value in read_env_file(text).values())
