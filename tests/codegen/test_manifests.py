"""The manifests of an installation: plain files, kustomize, Helm chart; validated by a server."""

from typing import Any

import pytest

from levelset.client.internals import with_settings
from levelset.codegen.dockerfile import docker_files
from levelset.codegen.helm_chart import helm_chart
from levelset.codegen.installation import Installation, installation_of
from levelset.codegen.manifests import documents_of, kustomize_tree, manifests_of, split_image
from levelset.codegen.rbac import permit
from levelset.errors import ConfigError
from levelset.objects.yaml_codec import read_yaml
from levelset.runtime.controller import Controller
from levelset.runtime.manager.run import read_arguments
from levelset.runtime.webhook import converts, validates
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import open_client
from tests.codegen.golden_files import check_files
from tests.codegen.helm_renderer import render_chart
from tests.codegen.sample_kinds import OldShop, OldShopSpec, Shop, ShopSpec
from tests.stories.examples import load

website: Any = load("03_website")


def check(site: Any) -> None:
    """Accepts everything."""


def older(shop: Shop) -> OldShop:
    return OldShop.new(shop.name, OldShopSpec(picture=shop.spec.image))


def newer(shop: OldShop) -> Shop:
    return Shop.new(shop.name, ShopSpec(image=shop.spec.picture))


SITES = installation_of(
    [website.websites],
    name="sites",
    image="sites:1.2",
    version="1.2.0",
    description="Runs websites.",
    webhooks=[validates(website.Website, check)],
    replicas=2,
    command=["python", "-m", "sites"],
    environment={"LEVEL": "info"},
)
SMALL = Installation(name="small", image="example/small@sha256:abc")


def test_the_manifests_of_the_website_example_equal_the_golden_files():
    check_files("manifests", manifests_of(SITES))


def test_the_kustomize_tree_of_the_website_example_equals_the_golden_files():
    check_files("kustomize", kustomize_tree(SITES))


def test_the_chart_of_the_website_example_equals_the_golden_files():
    check_files("chart", helm_chart(SITES))


async def apply_all(objects) -> list[str]:
    """Creates all objects on a server with strict field validation."""
    async with open_client(crd=False) as client:
        strict = with_settings(client, validation="Strict")
        if objects[0]["kind"] != "Namespace":
            await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
        return [(await strict.create(one)).kind for one in objects]


@virtual
async def test_a_server_accepts_every_manifest_strictly():
    made = await apply_all([obj for objects in documents_of(SITES).values() for obj in objects if _is_rest(obj)])
    assert made == [
        *("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"),
        *("Service", "PodDisruptionBudget", "NetworkPolicy", "ValidatingWebhookConfiguration"),
    ]


def _is_rest(obj):
    return obj["kind"] != "CustomResourceDefinition"


@virtual
async def test_a_rendered_chart_is_accepted_by_a_server_in_the_release_namespace() -> None:
    chart = helm_chart(SITES)
    changes: dict[str, Any] = {"replicas": 3, "image__tag": "2.0", "tolerations": [{"operator": "Exists"}]}
    objects = render_chart(chart, namespace="elsewhere", **changes)
    assert len(await apply_all(objects)) == 10
    (running,) = [one for one in objects if one["kind"] == "Deployment"]
    pod = running["spec"]["template"]["spec"]
    assert (running["metadata"]["namespace"], running["spec"]["replicas"]) == ("elsewhere", 3)
    assert (pod["containers"][0]["image"], pod["tolerations"]) == ("sites:2.0", [{"operator": "Exists"}])
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "256Mi"}
    assert {"name": "LEVELSET_WEBHOOK_SERVICE", "value": "sites.elsewhere"} in pod["containers"][0]["env"]
    namespaces = {one["metadata"].get("namespace") for one in objects}
    assert namespaces == {None, "elsewhere"}


def test_a_chart_can_disable_optional_objects():
    chart = helm_chart(SITES)
    whole = {one["kind"] for one in render_chart(chart, namespace="x")}
    less = render_chart(chart, namespace="x", networkPolicy__enabled=False, podDisruptionBudget__enabled=False)
    assert whole - {one["kind"] for one in less} == {"NetworkPolicy", "PodDisruptionBudget"}


def test_every_value_of_a_chart_is_used_by_a_template():
    chart = helm_chart(SITES)
    templates = "".join(text for path, text in chart.items() if path.startswith("templates/"))
    (values,) = read_yaml(chart["values.yaml"])
    assert [name for name in values if f".Values.{name}" not in templates] == []


def test_every_file_ends_with_a_newline_and_is_deterministic():
    for make in (manifests_of, kustomize_tree, helm_chart):
        files = make(SITES)
        assert files == make(SITES)
        assert [path for path, text in files.items() if not text.endswith("\n") or text.endswith("\n\n")] == []


def test_all_files_of_a_kustomize_base_are_listed():
    files = kustomize_tree(SITES)
    (base,) = read_yaml(files["base/kustomization.yaml"])
    assert {f"base/{path}" for path in base["resources"]} | {"base/kustomization.yaml"} == {
        path for path in files if path.startswith("base/")
    }


def test_an_overlay_does_not_move_roles_of_other_namespaces():
    there = Installation(name="small", image="small", permissions=[permit(Shop, "get", namespace="team-a")])
    for one, is_placed in ((SMALL, True), (there, False)):
        (overlay,) = read_yaml(kustomize_tree(one)["overlays/default/kustomization.yaml"])
        assert ("namespace" in overlay) is is_placed


def test_the_pod_is_non_root_with_a_read_only_filesystem():
    pod = documents_of(SITES)["deployment.yaml"][0]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["args"] == ["--health=0.0.0.0:8081", "--log-json", "--leader=sites"]
    assert [one["port"] for one in (container["livenessProbe"]["httpGet"],)] == ["health"]


@pytest.mark.parametrize("replicas", [1, 3])
def test_an_operator_elects_a_leader_with_a_lease_that_it_may_write(replicas):
    documents = documents_of(installation_of([website.websites], name="sites", image="sites:1", replicas=replicas))
    (container,) = documents["deployment.yaml"][0]["spec"]["template"]["spec"]["containers"]
    assert read_arguments(container["args"]).leader == "sites"
    rules = [rule for one in documents["rbac.yaml"] if one["kind"] == "Role" for rule in one["rules"]]
    named = [rule for rule in rules if rule["resources"] == ["leases"] and rule.get("resourceNames") == ["sites"]]
    assert [rule["verbs"] for rule in named] == [["get", "update"]]


def test_an_installation_with_webhooks_may_write_its_certificates_and_ca_bundle():
    roles = [one for one in documents_of(SITES)["rbac.yaml"] if "rules" in one]
    rules = {(one["kind"], rule["resources"][0], *rule["verbs"]) for one in roles for rule in one["rules"]}
    assert {
        ("ClusterRole", "validatingwebhookconfigurations", "get", "patch"),
        ("Role", "secrets", "get", "update"),
        ("Role", "secrets", "create"),
    } <= rules
    (container,) = documents_of(SITES)["deployment.yaml"][0]["spec"]["template"]["spec"]["containers"]
    assert {"name": "LEVELSET_WEBHOOK_SERVICE", "value": "sites.sites-system"} in container["env"]


def test_an_installation_without_webhooks_has_no_port_for_them():
    (service,) = documents_of(SMALL)["service.yaml"]
    assert [port["name"] for port in service["spec"]["ports"]] == ["health"]
    assert set(documents_of(SMALL)) & {"rbac.yaml", "webhooks.yaml"} == set()
    assert helm_chart(SMALL)["templates/deployment.yaml"].count(
        "'{{ .Values.image.repository }}@{{ .Values.image.tag }}'"
    )


def test_a_conversion_counts_as_a_webhook():
    async def reconcile(shop: Any, ctx: Any) -> None: ...

    translations = [converts(Shop, OldShop, to_hub=newer, from_hub=older)]
    one = installation_of([Controller(Shop, reconcile)], name="shop", image="shop", webhooks=translations)
    (definition,) = one.definitions
    assert [(version["name"], version["storage"]) for version in definition["spec"]["versions"]] == [
        ("v1", True),
        ("v1beta1", False),
    ]
    assert one.webhooks == []
    assert definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["namespace"] == "shop-system"
    assert one.has_webhooks


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("shop", ("shop", "")),
        ("shop:1", ("shop", "1")),
        ("host:5000/shop", ("host:5000/shop", "")),
        ("host:5000/shop:1", ("host:5000/shop", "1")),
        ("shop@sha256:abc", ("shop", "sha256:abc")),
    ],
)
def test_an_image_tag_is_distinguished_from_a_registry_port(image, parts):
    assert split_image(image) == parts


@pytest.mark.parametrize(("options", "message"), [({"name": "A b"}, "at most 53"), ({"replicas": 0}, "at least one")])
def test_an_invalid_installation_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Installation(**{"name": "shop", "image": "shop", **options})


def test_the_dockerfile_runs_the_command_as_a_non_root_user():
    files = docker_files(["python", "-m", "website"], python="3.13", ports=[8081, 9443])
    check_files("docker", files)
    with pytest.raises(ConfigError, match="a list of words"):
        docker_files("python -m website")
