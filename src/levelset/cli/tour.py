"""`levelset tour`: short examples that run the real code, each with the lines that it prints."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from levelset.errors import ApplyConflict, BadSelector
from levelset.objects import (
    LabelSelector,
    Meta,
    Quantity,
    Resource,
    Spec,
    Status,
    Tree,
    decode,
    definition_of,
    encode_tree,
    to_tree,
)
from levelset.patch import ANYTHING, apply_merge, make_merge
from levelset.patch.server_side_apply import apply

__all__ = ["STOPS", "Stop", "Website", "WebsiteSpec", "WebsiteStatus"]


class WebsiteSpec(Spec):
    """The desired state of a site."""

    image: str
    replicas: Annotated[int, Meta(ge=1)] = 1


class WebsiteStatus(Status):
    """The observed state of a site."""

    ready_replicas: int = 0


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1", short_names=["ws"]):
    """A site served from a container image."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop of the tour: a title, and a function that yields its lines."""

    title: str
    lines: Callable[[], Iterator[str]]


def _kinds() -> Iterator[str]:
    definition = definition_of(Website)
    site = Website.new("blog", WebsiteSpec(image="blog:1"), namespace="default")
    yield f"{definition.gvk}, served as {definition.gvr.resource}, short {definition.short_names[0]}"
    yield f"{site.ref} wants {site.spec.replicas} of {site.spec.image}"


# As stored by a server: `canary` was added by a newer client than this class.
_STORED = b"""{
  "apiVersion": "example.dev/v1", "kind": "Website",
  "metadata": {"name": "blog", "namespace": "default", "labels": {"tier": "public"}},
  "spec": {"image": "blog:1", "canary": {"weight": 5}}
}"""


def _unknown_fields() -> Iterator[str]:
    site = decode(Website, _STORED)
    yield f"read     {site.spec}"
    yield f"written  {_json(to_tree(site.with_spec(replicas=3))['spec'])}"


def _selectors() -> Iterator[str]:
    selector = LabelSelector.parse("tier in (public, partner), !canary")
    labels = decode(Website, _STORED).metadata.labels
    yield f"{selector} matches {_json(labels)}: {selector.matches(labels)}"
    try:
        LabelSelector.parse("tier in (public")
    except BadSelector as error:
        yield f"refused  {error}"


def _quantities() -> Iterator[str]:
    memory, cpu = Quantity("1.5Gi") + Quantity("512Mi"), Quantity("100m") + Quantity("0.2")
    yield f"1.5Gi + 512Mi = {memory}"
    yield f"100m + 0.2 = {cpu}, which is 0.3: {cpu == Quantity('0.3')}"


def _merge_patches() -> Iterator[str]:
    site = decode(Website, _STORED)
    before, after = to_tree(site)["spec"], to_tree(site.with_spec(image="blog:2"))["spec"]
    patch = make_merge(before, after)
    yield f"patch    {_json(patch)}"
    yield f"applied  {_json(apply_merge(before, patch))}"


def _server_side_apply() -> Iterator[str]:
    at = partial(apply, shape=ANYTHING, api_version="example.dev/v1", now=datetime(2026, 1, 1, tzinfo=UTC))
    stored = at(None, _website(3), manager="pipeline").object
    try:
        at(stored, _website(5), manager="scaler")
    except ApplyConflict as error:
        (conflict,) = error.conflicts
        yield f"refused  scaler may not set {conflict.field}: {conflict.manager} owns it"
    forced = at(stored, _website(5), manager="scaler", force=True).object
    yield f"forced   {_json(forced['spec'])}"


def _website(replicas: int) -> dict[str, Tree]:
    return {"apiVersion": "example.dev/v1", "kind": "Website", "spec": {"replicas": replicas}}


def _json(tree: object) -> str:
    return encode_tree(tree).decode()


STOPS: Sequence[Stop] = (
    Stop("A class is a kind, and its objects are frozen values", _kinds),
    Stop("A read-modify-write preserves fields that the class does not define", _unknown_fields),
    Stop("Selectors match labels, and syntax errors point at the position", _selectors),
    Stop("Quantities are exact", _quantities),
    Stop("A merge patch contains only the changes", _merge_patches),
    Stop("Server-side apply tracks the owner of each field", _server_side_apply),
)
