"""`levelset install` applies objects in order; `uninstall` deletes them after confirmation."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from levelset import Client
from levelset.apiserver import ApiServer
from levelset.apiserver.kubeconfig_file import ConnectionInfo, write_kubeconfig
from levelset.cli.commands import levelset
from levelset.cli.install import install_order, read_manifests
from levelset.errors import ConfigError, NotFound
from tests.cli.fixtures.operator import Site, SiteSpec

CONTROLLERS = "tests.cli.fixtures.operator:controllers"
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
    """A client of a server, and the arguments for the command."""
    path, manifests = folder / "kubeconfig", folder / "all.yaml"
    await asyncio.to_thread(manifests.write_text, MANIFESTS)
    async with ApiServer(tls=False) as server, await Client.connect(server) as client:
        await asyncio.to_thread(write_kubeconfig, path, ConnectionInfo(server.url, server.token, server.ca))
        # This server runs no Deployments.
        yield client, [CONTROLLERS, "-f", str(manifests), "--kubeconfig", str(path)]


async def test_all_objects_are_created_in_order_and_unchanged_the_second_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, words):
        first, second = await type_("install", *words, "--no-wait"), await type_("install", *words, "--no-wait")
        await client.create(Site.new("blog", SiteSpec(image="blog:1"), namespace="default"))
    assert first.output.splitlines() == [
        "Namespace/systems: created",
        "CustomResourceDefinition/sites.doctor.dev: created",
        "Deployment/systems/operator: created",
    ]
    assert [line.partition(": ")[2] for line in second.output.splitlines()] == ["unchanged"] * 3


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, words):
        result = await type_("install", *words[:1], *words[3:], "--dry-run")
        with pytest.raises(NotFound):
            await client.list(Site)
    assert result.output == "CustomResourceDefinition/sites.doctor.dev: created (dry run)\n"


async def test_uninstall_asks_before_objects_are_deleted_with_their_crd(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, words):
        await type_("install", *words, "--no-wait")
        await client.create(Site.new("blog", SiteSpec(image="blog:1"), namespace="default"))
        result = await type_("uninstall", *words, answer="n\n")
        assert result.exit_code == 2
        assert "This deletes 1 sites.doctor.dev with their CRDs." in result.output
        assert len(await client.list(Site)) == 1
        result = await type_("uninstall", *words, answer="y\n")
        assert result.output.splitlines()[-3:] == [
            "Deployment/systems/operator: deleted",
            "CustomResourceDefinition/sites.doctor.dev: deleted",
            "Namespace/systems: deleted",
        ]
        result = await type_("uninstall", *words)
        assert [line.partition(": ")[2] for line in result.output.splitlines()] == ["not found"] * 3


async def test_yes_skips_the_confirmation(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, words):
        await type_("install", *words, "--no-wait")
        await client.create(Site.new("blog", SiteSpec(image="blog:1"), namespace="default"))
        result = await type_("uninstall", *words, "--yes")
    assert result.exit_code == 0
    assert "Continue?" not in result.output


def test_webhooks_come_last_and_namespaces_first() -> None:
    kinds = ["ValidatingWebhookConfiguration", "Deployment", "Website", "CustomResourceDefinition", "Namespace"]
    assert [one["kind"] for one in install_order([{"kind": kind} for kind in kinds])] == [
        "Namespace",
        "CustomResourceDefinition",
        "Deployment",
        "Website",
        "ValidatingWebhookConfiguration",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", "bad.yaml: "),
        ("a: 1", "bad.yaml, document 1 is not a manifest: it needs apiVersion, kind, metadata"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}", r"bad.yaml, document 1 \(Pod\) has no metadata.name"),
    ],
)
def test_a_bad_manifest_is_named_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_manifests(tmp_path)


async def test_missing_files_and_arguments_are_refused(tmp_path: Path) -> None:
    for words, message in (
        ([], "nothing to install: pass MODULE:CONTROLLERS"),
        (["-f", str(tmp_path / "none.yaml")], "none.yaml cannot be read: No such file or directory"),
        (["-f", str(tmp_path)], "contains no manifests"),
        ([CONTROLLERS, "--kubeconfig", str(tmp_path / "none")], "none"),
    ):
        result = await type_("install", *words)
        assert result.exit_code == 2
        assert message in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no manifests: it is empty"),
        ("{apiVersion: v1, kind: 5, metadata: {name: a}}", "a.yaml, document 1: kind 5 is not a kind"),
        ("{apiVersion: [1], kind: A, metadata: {name: a}}", "a.yaml, document 1: apiVersion .* is no text"),
        (
            "{apiVersion: v1, kind: A, metadata: {name: 5}}",
            "a.yaml, document 1: metadata.name 5 is not a string; quote it",
        ),
        (
            "{apiVersion: v1, kind: A, metadata: {name: a, namespace: 1}}",
            "metadata.namespace 1 is not a string; quote it",
        ),
    ],
)
def test_an_invalid_document_is_named_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_manifests(tmp_path / "a.yaml")


def test_the_items_of_a_list_are_read_and_duplicates_dropped(tmp_path: Path) -> None:
    item = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
    (tmp_path / "a.yaml").write_text(
        f"apiVersion: v1\nkind: List\nitems: [{item}, {item.replace('name: a', 'name: b')}]\n"
    )
    (tmp_path / "b.yaml").write_text(item)
    assert [one["metadata"]["name"] for one in read_manifests(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize("spec", ["{}", "{group: b, versions: [], names: {kind: A}}", "{versions: 5}", "[]"])
async def test_an_invalid_crd_is_not_found(tmp_path: Path, spec: str) -> None:
    kind = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.dev}\n"
    async with serving(tmp_path) as (_, words):
        await asyncio.to_thread((tmp_path / "bad.yaml").write_text, f"{kind}spec: {spec}\n")
        result = await type_("uninstall", "-f", str(tmp_path / "bad.yaml"), *words[-2:])
    assert (result.exit_code, result.output) == (0, "CustomResourceDefinition/a.b.dev: not found\n")


async def test_only_own_kinds_are_installed_in_all_versions(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, words):
        result = await type_("install", "tests.cli.fixtures.foreign_operator", *words[-2:])
    assert result.output == "CustomResourceDefinition/signs.stranger.dev: created\n"


async def test_json_output(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, words):
        made = await type_("install", *words[-2:], CONTROLLERS, "-o", "json")
        gone = await type_("uninstall", *words[-2:], CONTROLLERS, "-o", "json")
    name = "CustomResourceDefinition/sites.doctor.dev"
    assert json.loads(made.stdout) == [{"object": name, "change": "created"}]
    assert json.loads(gone.stdout) == [{"object": name, "change": "deleted"}]


async def test_a_rejected_token_is_reported_with_the_next_step(tmp_path: Path) -> None:
    async with ApiServer(tls=False) as server:
        await asyncio.to_thread(write_kubeconfig, tmp_path / "k", ConnectionInfo(server.url, "wrong", server.ca))
        result = await type_("install", CONTROLLERS, "--kubeconfig", str(tmp_path / "k"))
    assert result.exit_code == 1
    assert "the token or certificate is not accepted; run levelset doctor for details" in result.stderr


SERVICE = {"name": "sites", "namespace": "systems", "path": "/validate"}
WEBHOOK = {"name": "a.sites.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore"}


def webhook_configuration(client_config: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "sites"},
        "webhooks": [{**WEBHOOK, "clientConfig": client_config}],
    }


def crd_with_conversion(client_config: dict[str, Any]) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": name, "served": True, "storage": name == "v2", "schema": schema} for name in ("v1", "v2")]
    conversion = {"webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client_config}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "notes.sites.dev"},
        "spec": {
            "group": "sites.dev",
            "scope": "Namespaced",
            "names": {"kind": "Note", "plural": "notes", "singular": "note", "listKind": "NoteList"},
            "versions": versions,
            "conversion": {"strategy": "Webhook", **conversion},
        },
    }


@pytest.mark.parametrize("make", [webhook_configuration, crd_with_conversion])
async def test_the_address_of_an_operator_that_was_killed_is_replaced(
    tmp_path: Path, make: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    manifest = tmp_path / "webhooks.json"
    await asyncio.to_thread(manifest.write_text, json.dumps(make({"service": SERVICE})))
    async with serving(tmp_path) as (client, words):
        stale = await client.apply(make({"url": "https://127.0.0.1:9443/validate"}), manager="dev")
        install = ["install", "-f", str(manifest), *words[-2:]]
        tried, first, second = [await type_(*install, *more) for more in (["--dry-run"], [], [])]
        found = await client.get(stale.ref)
    assert tried.output.endswith(": changed (it had another address: https://127.0.0.1:9443/validate) (dry run)\n")
    assert first.output.endswith(": changed (it had another address: https://127.0.0.1:9443/validate)\n")
    assert second.output.endswith(": unchanged\n")
    assert "127.0.0.1:9443" not in json.dumps(found.tree)
    assert '"service"' in json.dumps(found.tree)
