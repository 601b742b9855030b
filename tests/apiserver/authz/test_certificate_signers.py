"""Certificate requests: none is made in another name, nor decided without the verb for its signer."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.apiserver.support.rbac_server import RbacServer, open_rbac_server

CERTIFICATES = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
GROUP = "certificates.k8s.io"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
APPLY = {"content-type": "application/apply-patch+yaml"}
MERGE = {"content-type": "application/merge-patch+json"}
FORGED: dict[str, Any] = {
    "username": "levelset-admin",
    "uid": "0",
    "groups": ["system:masters"],
    "extra": {"scopes": ["all"]},
}
APPROVED = {"type": "Approved", "status": "True", "reason": "checked"}


def certificate_request(organization: str = "devs") -> str:
    names = [
        x509.NameAttribute(NameOID.COMMON_NAME, "eve"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
    ]
    built = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    return base64.b64encode(
        built.sign(ec.generate_private_key(ec.SECP256R1()), SHA256()).public_bytes(Encoding.PEM)
    ).decode()


def new_request(signer: str = "example.com/web", request: str | None = None, **spec: Any) -> dict[str, Any]:
    spec = {"request": request or certificate_request(), "signerName": signer, "usages": ["client auth"], **spec}
    return {"apiVersion": f"{GROUP}/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "a"}, "spec": spec}


async def grant(api: RbacServer, user: str, resource: str, *verbs: str, names: tuple[str, ...] = ()) -> None:
    made = {"apiGroups": [GROUP], "resources": [resource], "verbs": list(verbs)}
    await api.grant(user, {**made, "resourceNames": list(names)} if names else made, namespace=None)


@pytest.mark.parametrize("is_applied", [False, True])
async def test_the_requester_is_the_user_of_the_request_whatever_the_client_sends(is_applied: bool) -> None:
    async with open_rbac_server() as api:
        await grant(api, "eve", "certificatesigningrequests", "create", "patch")
        if is_applied:
            query = {"fieldManager": "m"}
            status, made = await api.request(
                "eve", "PATCH", f"{CERTIFICATES}/a", new_request(**FORGED), headers=APPLY, **query
            )
        else:
            status, made = await api.request("eve", "POST", CERTIFICATES, new_request(**FORGED), groups=["devs"])
        assert status == 201, made
        spec = made["spec"]
        assert (spec["username"], "uid" in spec, "extra" in spec) == ("eve", False, False)
        assert "system:masters" not in spec["groups"]
        assert "system:authenticated" in spec["groups"]
        owned = await api.request_as_owner("GET", f"{CERTIFICATES}/a")
        assert owned["spec"]["username"] == "eve"


async def test_the_requester_cannot_be_changed_later() -> None:
    async with open_rbac_server() as api:
        await grant(api, "eve", "certificatesigningrequests", "create", "patch")
        await api.request("eve", "POST", CERTIFICATES, new_request())
        status, changed = await api.request("eve", "PATCH", f"{CERTIFICATES}/a", {"spec": FORGED}, headers=MERGE)
        assert (status, changed["spec"]["username"]) == (200, "eve")


@pytest.mark.parametrize(
    ("signer", "is_allowed"), [("example.com/web", True), ("example.com/*", True), ("a.com/*", False)]
)
async def test_approving_needs_the_verb_approve_for_the_signer(signer: str, is_allowed: bool) -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", CERTIFICATES, new_request())
        await grant(api, "eve", "certificatesigningrequests/approval", "patch", "update")
        decided = {"status": {"conditions": [APPROVED], "certificate": base64.b64encode(b"forged").decode()}}
        status, refused = await api.request("eve", "PATCH", f"{CERTIFICATES}/a/approval", decided, headers=MERGE)
        assert status == 403
        assert 'user not permitted to approve requests with signerName "example.com/web"' in refused["message"]
        await grant(api, "eve", "signers", "approve", names=(signer,))
        status, made = await api.request("eve", "PATCH", f"{CERTIFICATES}/a/approval", decided, headers=MERGE)
        assert status == (200 if is_allowed else 403)
        if is_allowed:
            assert (made["status"]["conditions"][0]["type"], "certificate" in made["status"]) == ("Approved", False)


async def test_signing_needs_the_verb_sign_for_the_signer_and_cannot_approve() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", CERTIFICATES, new_request())
        await api.request_as_owner(
            "PATCH", f"{CERTIFICATES}/a/approval", {"status": {"conditions": [APPROVED]}}, headers=MERGE
        )
        await grant(api, "eve", "certificatesigningrequests/status", "patch", "update")
        failed = {"status": {"conditions": [APPROVED, {**APPROVED, "type": "Failed"}]}}
        status, refused = await api.request("eve", "PATCH", f"{CERTIFICATES}/a/status", failed, headers=MERGE)
        assert (status, "not permitted to sign" in refused["message"]) == (403, True)
        await grant(api, "eve", "signers", "sign", names=("example.com/web",))
        status, _ = await api.request("eve", "PATCH", f"{CERTIFICATES}/a/status", failed, headers=MERGE)
        assert status == 200
        await api.request_as_owner("DELETE", f"{CERTIFICATES}/a")
        await api.request_as_owner("POST", CERTIFICATES, new_request())
        decided = {"status": {"conditions": [APPROVED]}}
        assert (await api.request("eve", "PATCH", f"{CERTIFICATES}/a/status", decided, headers=MERGE))[0] == 422


async def test_a_decision_cannot_be_taken_back() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", CERTIFICATES, new_request())
        denied = {"status": {"conditions": [{**APPROVED, "type": "Denied"}]}}
        await api.request_as_owner("PATCH", f"{CERTIFICATES}/a/approval", denied, headers=MERGE)
        for part in ("status", "approval"):
            nothing: dict[str, Any] = {"status": {"conditions": []}}
            status, _ = await api.request(
                "root", "PATCH", f"{CERTIFICATES}/a/{part}", nothing, groups=["system:masters"], headers=MERGE
            )
            assert status == 422
        made = await api.request_as_owner("GET", f"{CERTIFICATES}/a")
        assert [one["type"] for one in made["status"]["conditions"]] == ["Denied"]


@pytest.mark.parametrize(
    ("request_text", "problem"),
    [
        (certificate_request("system:masters"), "with system:masters group is not allowed"),
        (certificate_request(), None),
    ],
)
async def test_no_user_can_request_a_client_certificate_of_administrators(
    request_text: str, problem: str | None
) -> None:
    async with open_rbac_server() as api:
        await grant(api, "eve", "certificatesigningrequests", "create")
        status, made = await api.request("eve", "POST", CERTIFICATES, new_request(CLIENT_SIGNER, request_text))
        assert status == (201 if problem is None else 403), made
        assert problem is None or problem in made["message"]
