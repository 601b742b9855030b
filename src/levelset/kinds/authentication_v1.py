"""The kinds of authentication.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Self

from levelset.objects import Model, Object, ObjectMeta, Resource, Spec, Status

__all__ = [
    "BoundObjectReference",
    "SelfSubjectReview",
    "SelfSubjectReviewStatus",
    "TokenRequest",
    "TokenRequestSpec",
    "TokenRequestStatus",
    "TokenReview",
    "TokenReviewSpec",
    "TokenReviewStatus",
    "UserInfo",
]


class BoundObjectReference(Model):
    """`boundObjectRef` of TokenRequestSpec."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None


class UserInfo(Model):
    """`userInfo` of SelfSubjectReviewStatus, and others."""

    extra: dict[str, tuple[str, ...]] = {}
    groups: tuple[str, ...] = ()
    uid: str | None = None
    username: str | None = None


class SelfSubjectReviewStatus(Model):
    """`status` of SelfSubjectReview."""

    user_info: UserInfo = UserInfo()


class TokenRequestSpec(Spec):
    """`spec` of TokenRequest."""

    audiences: tuple[str, ...] = ()
    bound_object_ref: BoundObjectReference | None = None
    expiration_seconds: int | None = None


class TokenRequestStatus(Status):
    """`status` of TokenRequest."""

    expiration_timestamp: datetime | None = None
    token: str | None = None


class TokenReviewSpec(Spec):
    """`spec` of TokenReview."""

    token: str
    audiences: tuple[str, ...] = ()


class TokenReviewStatus(Status):
    """`status` of TokenReview."""

    audiences: tuple[str, ...] = ()
    authenticated: bool | None = None
    error: str | None = None
    user: UserInfo = UserInfo()


class SelfSubjectReview(Object, api="authentication.k8s.io/v1", scope="Cluster"):
    """The identity of the requesting user."""

    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        status: SelfSubjectReviewStatus | None = None,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(name=name, labels=dict(labels or {}), annotations=dict(annotations or {}))
        return cls(metadata=metadata, status=SelfSubjectReviewStatus() if status is None else status)


class TokenRequest(Resource[TokenRequestSpec, TokenRequestStatus], api="authentication.k8s.io/v1", status=False):
    """A request for a token of a ServiceAccount."""

    spec: TokenRequestSpec = TokenRequestSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: TokenRequestSpec | None = None,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Self:
        """A new object that no server has seen yet; without a spec, an empty one."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata) if spec is None else cls(metadata=metadata, spec=spec)


class TokenReview(
    Resource[TokenReviewSpec, TokenReviewStatus], api="authentication.k8s.io/v1", scope="Cluster", status=False
):
    """Authenticates a token and returns its user."""
