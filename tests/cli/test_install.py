"""`levelset install` puts things on a cluster in an order that works; `uninstall` takes them away, and asks first."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset import Client
from levelset.apiserver import ApiServer
from levelset.apiserver.kubeconfig_file import Contact, write_kubeconfig
from levelset.cli.commands import levelset
from levelset.cli.install import in_order, read_manifests
from levelset.errors import ConfigError, NotFound
from tests.cli.operator import Site, SiteSpec

CONTROLLERS = "tests.cli.operator:controllers"
MANIFESTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator, namespace: systems}
spec:
  selector: {matchLabels: {app: operator}}
  template:
    metadata: {labels: {app: operator}}
    spec: {containers: [{name: operator, image: "operator:1"}]}
---
---
apiVersion: v1
kind: Namespace
metadata: {name: systems, labels: {app: operator}}
"""


async def type_(*words: str, answer: str = "") -> Result:
    def invoke() -> Result:
        return CliRunner().invoke(levelset, words, input=answer, catch_exceptions=False)

    return await asyncio.to_thread(invoke)


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[tuple[Client, list[str]], None]:
    """A client of a server, and the words that lead the command there."""
    path, manifests = folder / "kubeconfig", folder / "all.yaml"
    await asyncio.to_thread(manifests.write_text, MANIFESTS)
    async with ApiServer(tls=False) as server, await Client.connect(server) as client:
        await asyncio.to_thread(write_kubeconfig, path, Contact(server.url, server.token, server.ca))
        # Nobody runs Deployments on this server.
        yield client, [CONTROLLERS, "-f", str(manifests), "--kubeconfig", str(path)]


async def test_all_is_made_in_an_order_that_works_and_unchanged_the_second_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, words):
        first, second = await type_("install", *words, "--no-wait"), await type_("install", *words, "--no-wait")
        await client.create(Site.new("blog", SiteSpec(image="blog:1"), namespace="default"))
    assert first.output.splitlines() == [
        "Namespace/systems: made",
        "CustomResourceDefinition/sites.doctor.dev: made",
        "Deployment/systems/operator: made",
    ]
    assert [line.partition(": ")[2] for line in second.output.splitlines()] == ["unchanged"] * 3


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, words):
        told = await type_("install", *words[:1], *words[3:], "--dry-run")
        with pytest.raises(NotFound):
            await client.list(Site)
    assert told.output == "CustomResourceDefinition/sites.doctor.dev: made (dry run)\n"


async def test_uninstall_asks_before_objects_go_with_their_definition(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, words):
        await type_("install", *words, "--no-wait")
        await client.create(Site.new("blog", SiteSpec(image="blog:1"), namespace="default"))
        told = await type_("uninstall", *words, answer="n\n")
        assert told.exit_code == 2
        assert "This deletes 1 sites.doctor.dev with the definitions." in told.output
        assert len(await client.list(Site)) == 1
        told = await type_("uninstall", *words, answer="y\n")
        assert told.output.splitlines()[-3:] == [
            "Deployment/systems/operator: deleted",
            "CustomResourceDefinition/sites.doctor.dev: deleted",
            "Namespace/systems: deleted",
        ]
        told = await type_("uninstall", *words)
        assert [line.partition(": ")[2] for line in told.output.splitlines()] == ["was not there"] * 3


async def test_with_yes_nobody_is_asked(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, words):
        await type_("install", *words, "--no-wait")
        await client.create(Site.new("blog", SiteSpec(image="blog:1"), namespace="default"))
        told = await type_("uninstall", *words, "--yes")
    assert told.exit_code == 0
    assert "Go on?" not in told.output


def test_webhooks_come_last_and_namespaces_first() -> None:
    kinds = ["ValidatingWebhookConfiguration", "Deployment", "Website", "CustomResourceDefinition", "Namespace"]
    assert [one["kind"] for one in in_order([{"kind": kind} for kind in kinds])] == [
        "Namespace",
        "CustomResourceDefinition",
        "Deployment",
        "Website",
        "ValidatingWebhookConfiguration",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: [", "bad.yaml: "),
        ("a: 1", "bad.yaml, document 1 is no manifest: it needs apiVersion, kind, metadata"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}", r"bad.yaml, document 1 \(Pod\) has no metadata.name"),
    ],
)
def test_a_bad_manifest_is_named_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_manifests(tmp_path)


async def test_what_is_not_there_or_not_said_is_refused(tmp_path: Path) -> None:
    for words, said in (
        ([], "say what: MODULE:CONTROLLERS"),
        (["-f", str(tmp_path / "none.yaml")], "none.yaml cannot be read: No such file or directory"),
        (["-f", str(tmp_path)], "holds no manifests"),
        ([CONTROLLERS, "--kubeconfig", str(tmp_path / "none")], "none"),
    ):
        told = await type_("install", *words)
        assert told.exit_code == 2
        assert said in told.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no manifests: there is nothing in it"),
        ("{apiVersion: v1, kind: 5, metadata: {name: a}}", "a.yaml, document 1: kind 5 is no kind"),
        ("{apiVersion: [1], kind: A, metadata: {name: a}}", "a.yaml, document 1: apiVersion .* is no text"),
        ("{apiVersion: v1, kind: A, metadata: {name: 5}}", "a.yaml, document 1: metadata.name 5 is no text; quote it"),
        ("{apiVersion: v1, kind: A, metadata: {name: a, namespace: 1}}", "metadata.namespace 1 is no text; quote it"),
    ],
)
def test_a_document_that_cannot_be_meant_is_named_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_manifests(tmp_path / "a.yaml")


def test_the_items_of_a_list_are_taken_one_by_one_and_what_stands_there_twice_once(tmp_path: Path) -> None:
    item = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
    (tmp_path / "a.yaml").write_text(
        f"apiVersion: v1\nkind: List\nitems: [{item}, {item.replace('name: a', 'name: b')}]\n"
    )
    (tmp_path / "b.yaml").write_text(item)
    assert [one["metadata"]["name"] for one in read_manifests(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize("spec", ["{}", "{group: b, versions: [], names: {kind: A}}", "{versions: 5}", "[]"])
async def test_a_definition_that_no_server_takes_is_simply_not_there(tmp_path: Path, spec: str) -> None:
    kind = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.dev}\n"
    async with serving(tmp_path) as (_, words):
        await asyncio.to_thread((tmp_path / "bad.yaml").write_text, f"{kind}spec: {spec}\n")
        told = await type_("uninstall", "-f", str(tmp_path / "bad.yaml"), *words[-2:])
    assert (told.exit_code, told.output) == (0, "CustomResourceDefinition/a.b.dev: was not there\n")


async def test_the_kinds_of_others_are_left_to_them_and_all_versions_of_ones_own_are_served(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, words):
        told = await type_("install", "tests.cli.strangers", *words[-2:])
    assert told.output == "CustomResourceDefinition/signs.stranger.dev: made\n"


async def test_programs_are_told_in_json_what_became_of_each(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, words):
        made = await type_("install", *words[-2:], CONTROLLERS, "-o", "json")
        gone = await type_("uninstall", *words[-2:], CONTROLLERS, "-o", "json")
    name = "CustomResourceDefinition/sites.doctor.dev"
    assert json.loads(made.stdout) == [{"object": name, "change": "made"}]
    assert json.loads(gone.stdout) == [{"object": name, "change": "deleted"}]


async def test_a_token_that_is_not_accepted_is_told_with_the_next_step(tmp_path: Path) -> None:
    async with ApiServer(tls=False) as server:
        await asyncio.to_thread(write_kubeconfig, tmp_path / "k", Contact(server.url, "wrong", server.ca))
        told = await type_("install", CONTROLLERS, "--kubeconfig", str(tmp_path / "k"))
    assert told.exit_code == 1
    assert "the token or certificate is not accepted; levelset doctor says more" in told.stderr
