"""The rules of CertificateSigningRequests, of their status and of their approval."""

import base64
import binascii
import re
from importlib.util import find_spec
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import at_least, label_problems, subdomain_problems
from levelset.apiserver.registry.builtin.rules.rule_tables import Endpoint, KindRules, Table, always, required
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["SIGNING_REQUEST", "check_signer_name"]

USAGES: Final = (
    *("any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment"),
    *("decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel"),
    *("ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime"),
    *("server auth", "signing", "timestamping"),
)
LEGACY_SIGNER: Final = "kubernetes.io/legacy-unknown"
MAX_DOMAIN: Final = 253
MAX_SIGNER: Final = 571
# Conditions that can only be true.
TRUE_ONLY: Final = ("Approved", "Denied", "Failed")
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s(.*?)-----END \1-----", re.DOTALL)
_EXCLUSIVE: Final = "Approved and Denied conditions are mutually exclusive"


def check_signer_name(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """The name of a signer: a domain, a slash and a path of names joined by dots."""
    if not value:
        out.append(field_errors.required(at))
        return
    segments = value.split("/")
    if len(segments) != 2:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        out.append(field_errors.invalid(at, value, detail))
        return
    domain, path = segments
    if len(domain) > MAX_DOMAIN:
        out.append(field_errors.too_long(at, MAX_DOMAIN))
    _check_segments(domain, at, out, label_problems)
    if "." not in domain:
        out.append(field_errors.invalid(at, domain, "should be a domain with at least two segments separated by dots"))
    _check_segments(path, at, out, subdomain_problems)
    if len(value) > MAX_SIGNER:
        out.append(field_errors.too_long(at, MAX_SIGNER))


def _check_segments(text: str, at: str, out: list[Cause], problems: Any) -> None:
    for one in text.split("."):
        found = problems(one)
        out.extend([field_errors.invalid(at, text, f'validating label "{one}": {problem}') for problem in found])
        if found:
            return


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _request(value: Any, at: str, out: list[Cause], old: Any) -> None:
    problem = "" if old is not None else _request_problem(_decoded(value))
    if problem:
        out.append(field_errors.invalid(at, value, problem))


def _request_problem(data: bytes) -> str:
    """Why this is no signed certificate request; its signature is verified with the extra `tls` only."""
    block = _BLOCK.search(data)
    if block is None or block[1] != b"CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    if find_spec("cryptography") is None:
        return ""
    # Imported late, and only where it is installed: it is slow to load.
    from cryptography.x509 import load_pem_x509_csr  # noqa: PLC0415

    try:
        is_signed = load_pem_x509_csr(block[0]).is_signature_valid
    except ValueError:
        return "asn1: structure error"
    return "" if is_signed else "x509: invalid signature"


def _usages(value: list[Any], at: str, out: list[Cause], _old: Any) -> None:
    for index, usage in enumerate(value):
        if usage not in USAGES:
            out.append(field_errors.not_supported(f"{at}[{index}]", usage, USAGES))
    seen: set[str] = set()
    for index, usage in enumerate(value):
        if usage in seen:
            out.append(field_errors.duplicate(f"{at}[{index}]", usage))
        seen.add(usage)


def _signer(value: Any, at: str, out: list[Cause], old: Any) -> None:
    if value == LEGACY_SIGNER and map_member(old, "spec").get("signerName") != LEGACY_SIGNER:
        detail = "the legacy signerName is not allowed via this API version"
        out.append(field_errors.invalid(at, value, detail))
    else:
        check_signer_name(value, at, out, None)


SPEC: Final = Table(
    ("request", always(_request)),
    ("usages", required, _usages),
    ("signerName", always(_signer)),
    ("expirationSeconds", at_least(600, "may not specify a duration less than 600 seconds (10 minutes)")),
)


def _conditions(tree: Any, _at: str, out: list[Cause], _old: Any) -> None:
    at, seen = "status.conditions", list[str]()
    for index, one in enumerate(list_member(map_member(tree, "status"), "conditions")):
        kind, status = one.get("type") or "", one.get("status") or ""
        if not kind:
            out.append(field_errors.required(f"{at}[{index}].type"))
        known = ("True",) if kind in TRUE_ONLY else ("False", "True", "Unknown")
        if not status:
            out.append(field_errors.required(f"{at}[{index}].status"))
        elif status not in known:
            out.append(field_errors.not_supported(f"{at}[{index}].status", status, known))
        other = {"Approved": "Denied", "Denied": "Approved"}.get(kind)
        if other in seen:
            out.append(field_errors.invalid(at, kind, _EXCLUSIVE))
        if kind in seen:
            out.append(field_errors.duplicate(f"{at}[{index}].type", kind))
        seen.append(kind)


def _certificate(tree: Any, _at: str, out: list[Cause], old: Any) -> None:
    value = map_member(tree, "status").get("certificate")
    if not value or value == map_member(old, "status").get("certificate"):
        return
    problem = _certificate_problem(_decoded(value))
    if problem:
        out.append(field_errors.invalid("status.certificate", "<certificate data>", problem))


def _certificate_problem(data: bytes) -> str:
    blocks = _BLOCK.findall(data)
    for kind, _ in blocks:
        if kind != b"CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind.decode()}"'
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"


def _of_type(tree: Any, kind: str) -> list[Any]:
    return [one for one in list_member(map_member(tree, "status"), "conditions") if one.get("type") == kind]


def _no_removed_conditions(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    for kind in TRUE_ONLY:
        if len(_of_type(new, kind)) < len(_of_type(old, kind)):
            detail = f'updates may not remove a condition of type "{kind}"'
            out.append(field_errors.forbidden("status.conditions", detail))


def _same_approval(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    """Only the approval endpoint may approve or deny; the strategy keeps what it said."""
    for kind in ("Approved", "Denied"):
        after, before = _of_type(new, kind), _of_type(old, kind)
        if len(after) > len(before):
            detail = f'updates may not add a condition of type "{kind}"'
            out.append(field_errors.forbidden("status.conditions", detail))


def _first_certificate(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    after, before = (map_member(tree, "status").get("certificate") or "" for tree in (new, old))
    if before and after != before:
        detail = "updates may not modify existing certificate content"
        out.append(field_errors.forbidden("status.certificate", detail))


_WHOLE: Final = Table(
    ("spec", always(lambda value, at, out, context: SPEC(value or {}, at, out, context))),
    ("", _conditions, _certificate),
    root=True,
)
SIGNING_REQUEST: Final = KindRules(
    rules=_WHOLE,
    status=_WHOLE,
    status_changes=(("", _no_removed_conditions), ("", _same_approval), ("", _first_certificate)),
    endpoints={"approval": Endpoint(_WHOLE, (("", _no_removed_conditions),))},
)
