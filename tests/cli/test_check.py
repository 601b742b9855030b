"""`levelset check`: diagnostics of code, CRDs and RBAC."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.cli.check import blocking_calls, ownerless_children, unawaited_calls
from levelset.cli.commands import levelset

MODULE = "tests.cli.fixtures.operator:controllers"


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


def test_blocking_calls_are_found_by_any_import_name() -> None:
    found = blocking_calls(CODE, "a.py")
    assert [(one.line, one.problem.partition("(")[0]) for one in found] == [
        (8, "time.sleep"),
        (9, "time.sleep"),
        (10, "subprocess.run"),
        (11, "requests.get"),
    ]
    assert str(found[0]) == (
        "a.py:8: error: time.sleep() in async reconcile blocks the event loop; "
        "write await asyncio.sleep(...), or return requeue(seconds)"
    )


def test_writes_that_are_not_awaited_are_found() -> None:
    source = """
async def reconcile(site, ctx):
    ctx.apply(child(site), owner=site)
    ctx.record(site, "Opened", "It is open.")
    ctx.set_status(site, status)  # levelset: ignore
    waiting = [ctx.apply(one, owner=site) for one in children(site)]
    await asyncio.gather(*waiting)
    await ctx.apply(child(site), owner=site)
"""
    assert [str(one) for one in unawaited_calls(source, "a.py")] == [
        "a.py:3: error: ctx.apply() is not awaited, so that nothing is sent; write await ctx.apply(...)"
    ]


READS = """
from levelset import Context, Controller, OnlyMetadata, Ref, Resource, Spec, Status, owns, references
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap, Secret, Service


class Site(Resource[Spec, Status], api="reads.example.dev/v1"):
    "A site."


async def helper(ctx: Context, name: str) -> None:
    await ctx.find(Service, name)


async def reconcile(site: Site, ctx: Context) -> None:
    await ctx.children(ConfigMap)
    await ctx.list(Site)
    await ctx.find(Secret, site.name)
    await ctx.get(Ref(Deployment, site.name, "default"))
    await ctx.get(Ref(Deployment, site.name, "default"), read="live")
    await ctx.find(Deployment, site.name)  # levelset: ignore
    await helper(ctx, site.name)


sites = Controller(Site, reconcile, owns(ConfigMap), owns(Secret, metadata_only=True))
"""


LEAVE_OUT = 'leave out metadata_only=True, or read="live"'
ADD = 'add owns({0}), watches({0}, to=...) or read="live"'


def checked(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    name = f"sites_{folder.name}"
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    lines = check(name).output.splitlines()
    return [line.removeprefix(f"{name}.py:") for line in lines if "NotCached" in line]


def test_reads_of_kinds_that_are_not_cached_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(tmp_path, READS.replace("OnlyMetadata, ", ""), monkeypatch)
    assert [line.partition(": error: ")[2] for line in found] == [
        f"ctx.find() raises NotCached: no relation declares Service; {ADD.format('Service')}",
        f"ctx.find() raises NotCached: only the metadata of Secret is cached; {LEAVE_OUT}",
        f"ctx.get() raises NotCached: no relation declares Deployment; {ADD.format('Deployment')}",
    ]
    line = READS.splitlines().index("    await ctx.find(Service, name)") + 1
    assert found[0].startswith(f"{line}: error: ")


def test_a_module_that_reads_metadata_is_not_accused_of_reading_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = READS.replace("ctx.find(Secret, site.name)", "ctx.find(OnlyMetadata(Secret), site.name)")
    assert [line for line in checked(tmp_path, source, monkeypatch) if "Secret" in line] == []


def test_what_another_controller_of_the_program_caches_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = '\nothers = Controller(Deployment, reconcile, owns(Service), owns(Secret), name="others")\n'
    assert checked(tmp_path, READS + other, monkeypatch) == []


def test_children_without_an_owner_are_found() -> None:
    (found,) = ownerless_children(CODE, "a.py", frozenset({"reconcile"}))
    assert (found.line, found.level) == (15, "warning")
    assert ownerless_children(CODE, "a.py", frozenset()) == []


def test_a_correct_project_has_no_problems() -> None:
    result = check(MODULE)
    assert (result.exit_code, result.output) == (0, "no problems found\n")


def test_a_change_that_breaks_stored_objects_is_an_error(tmp_path: Path) -> None:
    generate("crds", "tests.cli.fixtures.operator:other_controllers", "-d", str(tmp_path))
    result = check(MODULE, "--released", str(tmp_path))
    assert result.exit_code == 1
    assert "sites.doctor.dev: error: " in result.output
    assert "replicas" in result.output
    assert check("tests.cli.fixtures.operator:other_controllers", "--released", str(tmp_path)).exit_code == 0


def test_missing_permissions_in_roles_are_an_error(tmp_path: Path) -> None:
    generate("rbac", MODULE, "--name", "sites", "-d", str(tmp_path))
    assert check(MODULE, "--manifests", str(tmp_path)).exit_code == 0
    path = tmp_path / "rbac.yaml"
    path.write_text(path.read_text().replace("configmaps", "pods"))
    result = check(MODULE, "--manifests", str(tmp_path))
    assert result.exit_code == 1
    assert "no Role allows list configmaps" in result.output


@pytest.mark.parametrize(("replicas", "account", "problems"), [(1, "sites", 0), (2, "sites", 1), (2, "database", 0)])
def test_several_replicas_without_leader_election_are_an_error(
    tmp_path: Path, replicas: int, account: str, problems: int
) -> None:
    generate("manifests", MODULE, "--name", "sites", "--replicas", str(replicas), "-d", str(tmp_path))
    assert check(MODULE, "--manifests", str(tmp_path)).exit_code == 0
    (tmp_path / "install.yaml").unlink()
    path = tmp_path / "deployment.yaml"
    text = path.read_text().replace("        - --leader=sites\n", "")
    path.write_text(text.replace("serviceAccountName: sites", f"serviceAccountName: {account}"))
    result = check(MODULE, "--manifests", str(tmp_path))
    assert result.exit_code == problems
    assert result.output.count("Deployment sites has 2 replicas and no leader election") == problems
    assert result.output.count("add --leader=sites to its args") == problems


def test_a_class_without_a_crd_is_reported_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from levelset import Resource, Spec\nclass S(Spec):\n    a: int | list[str]\n"
    code += "class Odd(Resource[S, None], api='odd.dev/v1'):\n    pass\n"
    (tmp_path / "odd_kind.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    result = check("odd_kind.py")
    assert result.exit_code == 1
    assert result.output.startswith("odd_kind.py:4: error: ")


def test_json_output(tmp_path: Path) -> None:
    generate("crds", "tests.cli.fixtures.operator:other_controllers", "-d", str(tmp_path))
    found = json.loads(check(MODULE, "--released", str(tmp_path), "-o", "json").output)
    assert found[0]["level"] == "error"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing argument 'MODULE...'"),
        (["no_such_module_here"], "there is no module no_such_module_here"),
        ([MODULE, "--released", "nowhere"], "Path 'nowhere' does not exist"),
    ],
)
def test_a_usage_error_is_refused(words: list[str], message: str) -> None:
    result = check(*words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_release_without_crds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("{apiVersion: v1, kind: Namespace, metadata: {name: a}}")
    result = check(MODULE, "--released", str(tmp_path))
    assert result.exit_code == 2
    assert "contains no CustomResourceDefinition to compare with" in result.stderr


METHODS = """
from levelset import Context, Controller, Resource, Spec, Status
from levelset.codegen import permit

class DatabaseSpec(Spec):
    size: int = 1

class DatabaseStatus(Status):
    ready: int = 0

class Database(Resource[DatabaseSpec, DatabaseStatus], api="data.dev/v1"):
    pass

class Databases:
    def __init__(self, plugins):
        self.plugins = plugins

    async def reconcile(self, database, ctx):
        await self.helper(database, ctx)

    async def helper(self, database, ctx):
        await ctx.set_status(database, DatabaseStatus(ready=1))
        for one in self.plugins():
            await one.run(ctx)

databases = Controller(Database, Databases(input).reconcile)
"""


def test_permissions_of_methods_are_inferred_and_a_call_that_cannot_be_followed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "method_operator.py").write_text(METHODS)
    monkeypatch.chdir(tmp_path)
    generate("rbac", "method_operator.py", "--name", "databases", "-d", str(tmp_path))
    assert "databases/status" in (tmp_path / "rbac.yaml").read_text()
    result = check("method_operator.py")
    assert result.exit_code == 1
    line = METHODS.splitlines().index("            await one.run(ctx)") + 1
    assert f"method_operator.py:{line}: error: could not follow one.run() to infer permissions" in result.output
    assert "permit(...)" in result.output


def test_a_call_whose_permissions_are_declared_is_ignored_by_a_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = METHODS.replace("one.run(ctx)", "one.run(ctx)  # levelset: ignore")
    (tmp_path / "declared_operator.py").write_text(f"{code}\nplugins = permit(Database, 'delete')\n")
    monkeypatch.chdir(tmp_path)
    result = check("declared_operator.py")
    assert (result.exit_code, result.output) == (0, "no problems found\n")
