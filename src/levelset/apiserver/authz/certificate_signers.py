"""Who may approve and sign certificate requests: the verbs `approve` and `sign` for the signer that is named in them.

Kube-apiserver has the same rules in the plugins CertificateApproval, CertificateSigning and
CertificateSubjectRestriction.
"""

import base64
import binascii
from typing import Final

from levelset.apiserver.authn.request_attributes import RequestAttributes, quoted
from levelset.apiserver.authn.users import MASTERS, User
from levelset.apiserver.authz.rbac import RbacAuthorizer
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object

__all__ = ["CERTIFICATES", "certificate_problem"]

CERTIFICATES: Final = "certificates.k8s.io"
_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"


def certificate_problem(
    rbac: RbacAuthorizer, user: User, new: Object, old: Object | None, *, subresource: str
) -> str | None:
    """Why the user may not write this certificate request; None if they may."""
    signer = str(map_member(new if old is None else old, "spec").get("signerName") or "")
    if old is None:
        return _subject_problem(new) if signer == _CLIENT_SIGNER else None
    after, before = map_member(new, "status"), map_member(old, "status")
    verb = {"approval": "approve", "status": "sign"}.get(subresource)
    if verb is None or all(after.get(name) == before.get(name) for name in ("certificate", "conditions")):
        return None
    # A signer is named domain/path, and a role may name all of a domain.
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        if rbac.allows(user, RequestAttributes(verb, CERTIFICATES, "signers", "", "", name)):
            return None
    return f"user not permitted to {verb} requests with signerName {quoted(signer)}"


def _subject_problem(tree: Object) -> str | None:
    """Why a request for a client certificate cannot be made: it would make its owner an administrator."""
    from cryptography import x509  # noqa: PLC0415 - slow to import, and few servers get such requests

    try:
        request = base64.b64decode(str(map_member(tree, "spec").get("request")), validate=True)
        subject = x509.load_pem_x509_csr(request).subject
        groups = [one.value for one in subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)]
    except (binascii.Error, ValueError):
        return "the request is not a certificate request in PEM"
    return f"use of {_CLIENT_SIGNER} signer with {MASTERS} group is not allowed" if MASTERS in groups else None
