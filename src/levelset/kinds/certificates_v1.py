"""The kinds of certificates.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from datetime import datetime
from typing import Annotated

from levelset.kinds.enums import ConditionStatus, KeyUsage
from levelset.objects import ListMap, Model, Resource, Spec, Status

__all__ = [
    "CertificateSigningRequest",
    "CertificateSigningRequestCondition",
    "CertificateSigningRequestSpec",
    "CertificateSigningRequestStatus",
]


class CertificateSigningRequestCondition(Model):
    """One of `conditions` of CertificateSigningRequestStatus."""

    status: ConditionStatus
    type: str
    last_transition_time: datetime | None = None
    last_update_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class CertificateSigningRequestSpec(Spec):
    """`spec` of CertificateSigningRequest."""

    request: bytes
    signer_name: str
    expiration_seconds: int | None = None
    extra: dict[str, tuple[str, ...]] = {}
    groups: tuple[str, ...] = ()
    uid: str | None = None
    usages: tuple[KeyUsage, ...] = ()
    username: str | None = None


class CertificateSigningRequestStatus(Status):
    """`status` of CertificateSigningRequest."""

    certificate: bytes | None = None
    conditions: Annotated[tuple[CertificateSigningRequestCondition, ...], ListMap("type")] = ()


class CertificateSigningRequest(
    Resource[CertificateSigningRequestSpec, CertificateSigningRequestStatus],
    api="certificates.k8s.io/v1",
    scope="Cluster",
    short_names=["csr"],
):
    """A request for a certificate, and the certificate once it is signed."""
