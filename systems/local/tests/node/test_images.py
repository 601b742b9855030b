"""The program for an image: from the annotation, the command or the table; and the error if there is none."""

from typing import Any

import pytest

from levelset.errors import ConfigError
from levelset_local.node import COMMAND_ANNOTATION, Images, NoProgram
from levelset_local.node.images import installed_images
from systems.local.tests.node.fake_node import pod

TABLE = {"acme/web:1.*": ["web", "--one"], "acme/*": ["any"], "tool": ["tool"]}


def images(*programs: str) -> Images:
    return Images(TABLE, installed=False, find=lambda program: program if program in programs else None)


def command(table: Images, *, annotations: dict[str, str] | None = None, **fields: Any) -> tuple[str, ...]:
    it = pod("web", {"name": "web", "image": "acme/web:1.2", **fields}, metadata={"annotations": annotations or {}})
    return table.command(it, it.spec.containers[0])


def test_the_first_matching_line_is_used_and_args_are_appended() -> None:
    assert command(images()) == ("web", "--one")
    assert command(images(), args=["-v"]) == ("web", "--one", "-v")
    assert command(images(), image="acme/other:1") == ("any",)
    assert command(images(), image="tool") == ("tool",)


def test_a_missing_tag_means_latest() -> None:
    table = Images({"acme/web:latest": ["latest"]}, installed=False)
    assert command(table, image="acme/web") == ("latest",)


def test_a_command_takes_precedence_over_the_table() -> None:
    assert command(images("sh"), command=["sh", "-c"], args=["true"]) == ("sh", "-c", "true")
    with pytest.raises(NoProgram, match=r"its command 'sh' is no program of this machine"):
        command(images(), command=["sh"])


def test_the_line_of_an_image_stands_for_an_absolute_path_that_only_the_image_has() -> None:
    assert command(images(), command=["/manager", "run"], args=["-v"]) == ("web", "--one", "run", "-v")
    assert command(images("/manager"), command=["/manager"]) == ("/manager",)
    with pytest.raises(NoProgram, match=r"its command '/manager' is no program of this machine"):
        command(images(), image="ghcr.io/other/thing", command=["/manager"])


def test_a_command_below_a_mount_path_is_not_checked() -> None:
    mounts = [{"name": "scripts", "mountPath": "/scripts"}]
    assert command(images(), command=["/scripts/run"], volumeMounts=mounts) == ("/scripts/run",)


def test_the_annotation_takes_precedence_over_command_and_table() -> None:
    given = {COMMAND_ANNOTATION: "python -c 'print(1)'"}
    assert command(images("sh"), annotations=given, command=["sh"], args=["x"]) == ("python", "-c", "print(1)", "x")
    assert command(images(), annotations={f"{COMMAND_ANNOTATION}.web": "other"}) == ("other",)
    assert command(images(), annotations={f"{COMMAND_ANNOTATION}.side": "other"}) == ("web", "--one")
    with pytest.raises(NoProgram, match="not a valid command line"):
        command(images(), annotations={COMMAND_ANNOTATION: "it's"})


def test_the_error_for_an_image_without_a_program_explains_the_table() -> None:
    with pytest.raises(NoProgram) as caught:
        command(images(), image="ghcr.io/other/thing@sha256:abc")
    message = str(caught.value)
    assert 'Container image "ghcr.io/other/thing@sha256:abc" is not present' in message
    assert "none of the table's lines matches (acme/*, acme/web:1.*, tool)" in message
    assert COMMAND_ANNOTATION in message
    assert "levelset_local.images" in message


@pytest.mark.parametrize("argv", ["web --one", [], [1], None])
def test_a_line_is_a_list_of_words(argv: Any) -> None:
    with pytest.raises(ConfigError, match="give a list of words"):
        Images({"web": argv}, installed=False)


def test_installed_packages_add_lines() -> None:
    assert all(isinstance(argv, tuple) for argv in installed_images().values())
