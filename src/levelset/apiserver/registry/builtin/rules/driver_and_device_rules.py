"""The rules of storage drivers, attachments, devices and addresses of Services: what their objects must have."""

from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.rule_tables import KindRules, Required, Table, always, required
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_subdomain

__all__ = [
    "ATTACHMENT",
    "ATTRIBUTES_CLASS",
    "CAPACITY",
    "CLAIM",
    "CLAIM_TEMPLATE",
    "DEVICE_CLASS",
    "DRIVER",
    "IP_ADDRESS",
    "NODE_DRIVERS",
    "SERVICE_RANGE",
    "SLICE",
]


def _subdomain(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """An absent name is an empty one, which is reported as invalid and not as missing."""
    out += [field_errors.invalid(at, value or "", problem) for problem in check_dns1123_subdomain(value or "")]


_REQUEST: Final = Table(("name", required))
_CLAIM_SPEC: Final = Table(("devices.requests[*]", _REQUEST))

DRIVER: Final = KindRules(rules=Table(("spec", required), root=True))
NODE_DRIVERS: Final = KindRules(
    rules=Table(("spec.drivers[*]", Table(("name", required), ("nodeID", required))), root=True)
)
CAPACITY: Final = KindRules(rules=Table(("storageClassName", always(_subdomain)), root=True))
ATTACHMENT: Final = KindRules(
    rules=Table(
        ("spec.attacher", required), ("spec.nodeName", always(_subdomain)), ("spec.source", required), root=True
    )
)
ATTRIBUTES_CLASS: Final = KindRules(rules=Table(("driverName", required), root=True))
DEVICE_CLASS: Final = KindRules(rules=Table(("spec.selectors[*]", Table(("cel.expression", required))), root=True))
CLAIM: Final = KindRules(rules=Table(("spec", _CLAIM_SPEC), root=True))
CLAIM_TEMPLATE: Final = KindRules(rules=Table(("spec.spec", _CLAIM_SPEC), root=True))
SLICE: Final = KindRules(rules=Table(("spec.driver", required), ("spec.pool.name", required), root=True))
IP_ADDRESS: Final = KindRules(
    rules=Table(
        ("spec.parentRef", required, Table(("resource", required), ("name", required))),
        root=True,
    )
)
SERVICE_RANGE: Final = KindRules(rules=Table(("spec.cidrs", Required("at least one CIDR required")), root=True))
