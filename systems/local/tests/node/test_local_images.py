"""Which program stands for an image: annotation, command, table; and the words if none does."""

from typing import Any

import pytest

from levelset import ConfigError
from levelset_local.node import COMMAND, Images, NoProgram
from levelset_local.node.images import installed_images
from systems.local.tests.node.playing import pod

TABLE = {"acme/web:1.*": ["web", "--one"], "acme/*": ["any"], "tool": ["tool"]}


def images(*programs: str) -> Images:
    return Images(TABLE, installed=False, find=lambda program: program if program in programs else None)


def command(table: Images, *, annotations: dict[str, str] | None = None, **fields: Any) -> tuple[str, ...]:
    it = pod("web", {"name": "web", "image": "acme/web:1.2", **fields}, metadata={"annotations": annotations or {}})
    return table.command(it, it.spec.containers[0])


def test_the_first_line_that_matches_is_taken_and_args_are_appended() -> None:
    assert command(images()) == ("web", "--one")
    assert command(images(), args=["-v"]) == ("web", "--one", "-v")
    assert command(images(), image="acme/other:1") == ("any",)
    assert command(images(), image="tool") == ("tool",)


def test_a_tag_that_is_left_out_is_the_latest() -> None:
    table = Images({"acme/web:latest": ["latest"]}, installed=False)
    assert command(table, image="acme/web") == ("latest",)


def test_a_command_takes_the_place_of_the_table() -> None:
    assert command(images("sh"), command=["sh", "-c"], args=["true"]) == ("sh", "-c", "true")
    with pytest.raises(NoProgram, match=r"its command 'sh' is no program of this machine"):
        command(images(), command=["sh"])


def test_a_command_below_a_mounted_volume_is_taken_as_it_is() -> None:
    mounts = [{"name": "scripts", "mountPath": "/scripts"}]
    assert command(images(), command=["/scripts/run"], volumeMounts=mounts) == ("/scripts/run",)


def test_an_annotation_wins_over_all() -> None:
    said = {COMMAND: "python -c 'print(1)'"}
    assert command(images("sh"), annotations=said, command=["sh"], args=["x"]) == ("python", "-c", "print(1)", "x")
    assert command(images(), annotations={f"{COMMAND}.web": "other"}) == ("other",)
    assert command(images(), annotations={f"{COMMAND}.side": "other"}) == ("web", "--one")
    with pytest.raises(NoProgram, match="no line of shell words"):
        command(images(), annotations={COMMAND: "it's"})


def test_no_line_is_explained() -> None:
    with pytest.raises(NoProgram) as caught:
        command(images(), image="ghcr.io/other/thing@sha256:abc")
    words = str(caught.value)
    assert 'Container image "ghcr.io/other/thing@sha256:abc" is not present' in words
    assert "none of the table's lines matches (acme/*, acme/web:1.*, tool)" in words
    assert COMMAND in words
    assert "levelset_local.images" in words


@pytest.mark.parametrize("argv", ["web --one", [], [1], None])
def test_a_line_is_a_list_of_words(argv: Any) -> None:
    with pytest.raises(ConfigError, match="give a list of words"):
        Images({"web": argv}, installed=False)


def test_installed_packages_add_lines() -> None:
    assert all(isinstance(argv, tuple) for argv in installed_images().values())
