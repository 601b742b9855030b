"""A kind in three versions, with its conversions, admission requests and a CRD."""

import base64
import json
from typing import Annotated, Any

from levelset import Meta, Object, Resource, Spec, Status
from levelset.apiserver.package_data import load_package_data
from levelset.patch import apply_operations
from levelset.runtime.webhook import AdmissionHook, Conversion, converts

__all__ = [
    "OldSite",
    "OldSiteSpec",
    "OldestSite",
    "OldestSiteSpec",
    "Settings",
    "Site",
    "SiteSpec",
    "SiteStatus",
    "definition",
    "patched",
    "request",
    "review_result",
    "site",
    "versions",
]

# Once for all tests: a server that is started on a virtual loop cannot wait for a thread.
load_package_data()

Replicas = Annotated[int, Meta(ge=0, le=100)]


class SiteSpec(Spec):
    image: str = "nginx"
    replicas: Replicas = 1
    paused: bool = False


class SiteStatus(Status):
    phase: str = ""


class Site(Resource[SiteSpec, SiteStatus], api="example.dev/v2"):
    """A site."""

    spec: SiteSpec = SiteSpec()


class OldSiteSpec(Spec):
    container: str = "nginx"
    size: Replicas = 1
    paused: bool = False


class OldSite(Resource[OldSiteSpec, SiteStatus], api="example.dev/v1", kind="Site"):
    spec: OldSiteSpec = OldSiteSpec()


class OldestSiteSpec(Spec):
    what: str = "nginx"
    size: Replicas = 1
    running: bool = True


class OldestSite(Resource[OldestSiteSpec, SiteStatus], api="example.dev/v1alpha1", kind="Site"):
    spec: OldestSiteSpec = OldestSiteSpec()


class Settings(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


def site(name: str = "blog", **spec: Any) -> dict[str, Any]:
    """A site as a tree, with an undeclared field."""
    metadata = {"name": name, "namespace": "default", "labels": {"app": "shop"}}
    return {"apiVersion": "example.dev/v2", "kind": "Site", "metadata": metadata, "spec": {"stranger": 1, **spec}}


def request(new: Any = None, old: Any = None, *, operation: str = "CREATE", **more: Any) -> dict[str, Any]:
    """The request of an AdmissionReview about a site."""
    return {
        "uid": "u-1",
        "kind": {"group": "example.dev", "version": "v2", "kind": "Site"},
        "resource": {"group": "example.dev", "version": "v2", "resource": "sites"},
        "name": "blog",
        "namespace": "default",
        "operation": operation,
        "userInfo": {"username": "ann", "groups": ["staff"], "uid": "7", "extra": {"scope": ["all"]}},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **more,
    }


async def review_result(hook: AdmissionHook, reviewed: dict[str, Any]) -> tuple[bool, int, str]:
    """Whether a hook allows a request, and the code and message of its rejection."""
    response = await hook.review(reviewed)
    assert response["uid"] == reviewed["uid"]
    status = response.get("status") or {}
    return response["allowed"], status.get("code", 200), status.get("message", "")


def patched(tree: Any, response: dict[str, Any]) -> Any:
    """A tree after the patch of a response; the tree itself if there is none."""
    if "patch" not in response:
        return tree
    assert response["patchType"] == "JSONPatch"
    return apply_operations(json.loads(json.dumps(tree)), json.loads(base64.b64decode(response["patch"])))


def from_old(old: OldSite) -> Site:
    spec = SiteSpec(image=old.spec.container, replicas=old.spec.size, paused=old.spec.paused)
    return Site(metadata=old.metadata, spec=spec, status=old.status)


def to_old(new: Site) -> OldSite:
    spec = OldSiteSpec(container=new.spec.image, size=new.spec.replicas, paused=new.spec.paused)
    return OldSite(metadata=new.metadata, spec=spec, status=new.status)


def from_oldest(old: OldestSite) -> Site:
    spec = SiteSpec(image=old.spec.what, replicas=old.spec.size, paused=not old.spec.running)
    return Site(metadata=old.metadata, spec=spec, status=old.status)


def to_oldest(new: Site) -> OldestSite:
    spec = OldestSiteSpec(what=new.spec.image, size=new.spec.replicas, running=not new.spec.paused)
    return OldestSite(metadata=new.metadata, spec=spec, status=new.status)


def versions() -> list[Conversion]:
    """The conversions of all versions."""
    return [
        converts(Site, OldSite, to_hub=from_old, from_hub=to_old),
        converts(Site, OldestSite, to_hub=from_oldest, from_hub=to_oldest),
    ]


def definition(*names: str, scope: str = "Namespaced") -> dict[str, Any]:
    """A CRD with these versions, of which the first is stored; the schemas accept everything."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    served = [
        {
            "name": name,
            "served": True,
            "storage": name == names[0],
            "schema": {"openAPIV3Schema": schema},
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            },
        }
        for name in names
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.dev"},
        "spec": {
            "group": "example.dev",
            "scope": scope,
            "names": {"plural": "sites", "kind": "Site"},
            "versions": served,
        },
    }
