"""A webhook responds to any request."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from levelset import GroupVersionKind, Unstructured
from levelset.http import Headers, Request
from levelset.objects import encode_tree
from levelset.runtime.webhook import ReviewHandler, defaults, validates
from tests.runtime.webhook.site_kinds import Site, request, site, versions

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
MEMBERS = st.sampled_from([*request(), "subResource"])
FIELDS = st.sampled_from(["apiVersion", "kind", "metadata", "spec", "status"])
HEADERS = Headers({"content-type": "application/json"})
KINDS = {"AdmissionReview": "admission.k8s.io/v1", "ConversionReview": "apiextensions.k8s.io/v1"}


def check(one: Site) -> None:
    assert one.spec.replicas >= 0


def touch(one: Unstructured) -> Unstructured:
    return one


HOOKS = [
    validates(Site, check, object_selector="app=shop", name="check.example.dev.x"),
    defaults(GroupVersionKind("example.dev", "v2", "Site"), touch, name="touch.example.dev.x"),
]


async def answer(path: str, body: bytes) -> int:
    response = await ReviewHandler(HOOKS, versions()).handle(Request("POST", path, "", HEADERS, body))
    assert isinstance(response.body, bytes)
    document = json.loads(response.body)
    assert (
        document["kind"] == ("Status" if response.status >= 400 else "AdmissionReview")
        or "Conversion" in document["kind"]
    )
    return response.status


def review(kind: str, reviewed: Any) -> bytes:
    return encode_tree({"apiVersion": KINDS[kind], "kind": kind, "request": reviewed})


@given(st.dictionaries(MEMBERS, ANYTHING, max_size=2), st.dictionaries(FIELDS, ANYTHING, max_size=2), st.booleans())
async def test_any_admission_review_is_answered(more: dict[str, Any], fields: dict[str, Any], typed: bool) -> None:
    reviewed = request({**site(), **fields}, site(), operation="UPDATE") | more
    path = "/validate/check.example.dev.x" if typed else "/default/touch.example.dev.x"
    assert await answer(path, review("AdmissionReview", reviewed)) in (200, 400)


@given(st.dictionaries(FIELDS, ANYTHING, max_size=2), ANYTHING | st.just("example.dev/v1"))
async def test_any_conversion_review_is_answered(fields: dict[str, Any], wanted: Any) -> None:
    reviewed = {"uid": "1", "desiredAPIVersion": wanted, "objects": [{**site(), **fields}]}
    assert await answer("/convert", review("ConversionReview", reviewed)) in (200, 400)


@given(st.binary(max_size=30))
async def test_any_bytes_are_answered(body: bytes) -> None:
    assert await answer("/convert", body) == 400
