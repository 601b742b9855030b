"""`levelset check` finds what would go wrong, says where, and what to do next."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.cli.check import blocking_calls, orphans
from levelset.cli.commands import levelset

MODULE = "tests.cli.operator:controllers"


def check(*words: str) -> Result:
    return CliRunner().invoke(levelset, ["check", *words], catch_exceptions=False)


def generate(*words: str) -> None:
    assert CliRunner().invoke(levelset, ["generate", *words]).exit_code == 0


CODE = """
import time
import subprocess as sp
from time import sleep as nap
import requests

async def reconcile(site, ctx):
    time.sleep(1)
    nap(2)
    sp.run(["ls"])
    requests.get("http://x")
    time.sleep(3)  # levelset: ignore
    await helper()
    await asyncio.to_thread(lambda: time.sleep(4))
    await ctx.apply(child(site))
    await ctx.create(child(site), owner=site)

def helper():
    time.sleep(5)
"""


def test_calls_that_block_are_found_by_whatever_name_they_go() -> None:
    found = blocking_calls(CODE, "a.py")
    assert [(one.line, one.problem.partition("(")[0]) for one in found] == [
        (8, "time.sleep"),
        (9, "time.sleep"),
        (10, "subprocess.run"),
        (11, "requests.get"),
    ]
    assert str(found[0]) == (
        "a.py:8: error: time.sleep() in async reconcile stops the whole loop; "
        "write await asyncio.sleep(...), or return requeue(seconds) and let others work"
    )


def test_children_that_nobody_removes_are_found() -> None:
    (found,) = orphans(CODE, "a.py", frozenset({"reconcile"}))
    assert (found.line, found.level) == (15, "warning")
    assert orphans(CODE, "a.py", frozenset()) == []


def test_a_sound_project_has_nothing_wrong() -> None:
    told = check(MODULE)
    assert (told.exit_code, told.output) == (0, "nothing is wrong\n")


def test_a_change_that_breaks_stored_objects_is_an_error(tmp_path: Path) -> None:
    generate("crds", "tests.cli.operator:other_controllers", "-d", str(tmp_path))
    told = check(MODULE, "--released", str(tmp_path))
    assert told.exit_code == 1
    assert "sites.doctor.dev: error: " in told.output
    assert "replicas" in told.output
    assert check("tests.cli.operator:other_controllers", "--released", str(tmp_path)).exit_code == 0


def test_roles_that_do_not_allow_what_controllers_do_are_an_error(tmp_path: Path) -> None:
    generate("rbac", MODULE, "--name", "sites", "-d", str(tmp_path))
    assert check(MODULE, "--manifests", str(tmp_path)).exit_code == 0
    path = tmp_path / "rbac.yaml"
    path.write_text(path.read_text().replace("configmaps", "pods"))
    told = check(MODULE, "--manifests", str(tmp_path))
    assert told.exit_code == 1
    assert "no Role allows list configmaps" in told.output


def test_a_class_that_cannot_be_defined_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from levelset import Resource, Spec\nclass S(Spec):\n    a: int | list[str]\n"
    code += "class Odd(Resource[S, None], api='odd.dev/v1'):\n    pass\n"
    (tmp_path / "odd_kind.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    told = check("odd_kind.py")
    assert told.exit_code == 1
    assert told.output.startswith("odd_kind.py:4: error: ")


def test_it_speaks_json_to_programs(tmp_path: Path) -> None:
    generate("crds", "tests.cli.operator:other_controllers", "-d", str(tmp_path))
    found = json.loads(check(MODULE, "--released", str(tmp_path), "-o", "json").output)
    assert found[0]["level"] == "error"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing argument 'MODULE...'"),
        (["no_such_module_here"], "there is no module no_such_module_here"),
        ([MODULE, "--released", "nowhere"], "Path 'nowhere' does not exist"),
    ],
)
def test_what_is_not_understood_is_refused(words: list[str], said: str) -> None:
    told = check(*words)
    assert told.exit_code == 2
    assert said in told.stderr


def test_a_release_without_definitions_is_refused_rather_than_found_the_same(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("{apiVersion: v1, kind: Namespace, metadata: {name: a}}")
    told = check(MODULE, "--released", str(tmp_path))
    assert told.exit_code == 2
    assert "holds no CustomResourceDefinition, so nothing can be compared with it" in told.stderr
