"""The rules of storage drivers, attachments and addresses of Services."""

import ipaddress
import re
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    at_least,
    cidr,
    label_key_problems,
    label_selector,
    non_negative,
    one_of,
    path_segment_problems,
    quantity,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_volumes import csi_driver_name
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    KindRules,
    Required,
    Table,
    always,
    given,
    immutable,
    immutable_struct,
    on_create,
    required,
)
from levelset.apiserver.registry.builtin.rules.volume_rules import INLINE_VOLUME_SPEC, parameters, provisioner
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_subdomain

__all__ = [
    "ATTACHMENT",
    "ATTRIBUTES_CLASS",
    "CAPACITY",
    "DRIVER",
    "IP_ADDRESS",
    "NODE_DRIVERS",
    "SERVICE_RANGE",
    "subdomain",
]

_MIN_TOKEN_SECONDS: Final = 600
_MAX_TOKEN_SECONDS: Final = 2**32
_MAX_NODE_ID: Final = 256
_LEADING_ZEROS: Final = re.compile(r"\b0+(?=[0-9])")


def subdomain(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """An absent name is an empty one, which is reported as invalid and not as missing."""
    out += [field_errors.invalid(at, value or "", problem) for problem in check_dns1123_subdomain(value or "")]


def _token_requests(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    seen: set[str] = set()
    for index, one in enumerate(value):
        audience, seconds = one.get("audience") or "", one.get("expirationSeconds")
        where = f"{at}[{index}]"
        if audience in seen:
            out.append(field_errors.duplicate(f"{where}.audience", audience))
            continue
        seen.add(audience)
        if seconds is not None and seconds < _MIN_TOKEN_SECONDS:
            detail = "may not specify a duration less than 10 minutes"
            out.append(field_errors.invalid(f"{where}.expirationSeconds", seconds, detail))
        if seconds is not None and seconds > _MAX_TOKEN_SECONDS:
            detail = "may not specify a duration larger than 2^32 seconds"
            out.append(field_errors.invalid(f"{where}.expirationSeconds", seconds, detail))


def _modes(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    known = ("Persistent", "Ephemeral")
    out += [field_errors.not_supported(at, one, known) for one in value if one not in known]


def _secrets_with_requests(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    if spec.get("serviceAccountTokenInSecrets") is not None and not spec.get("tokenRequests"):
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        shown = spec["serviceAccountTokenInSecrets"]
        out.append(field_errors.invalid(f"{at}.serviceAccountTokenInSecrets", shown, detail))


def _changed_attachment(new: Any, _old: Any, _at: str, out: list[Cause]) -> None:
    # Upstream's name of the member has a letter more.
    out.append(field_errors.invalid("spec.attachedRequired", new, "field is immutable"))


DRIVER: Final = KindRules(
    rules=Table(
        ("spec.fsGroupPolicy", given(one_of("File", "None", "ReadWriteOnceWithFSType"))),
        ("spec.tokenRequests", _token_requests),
        ("spec.volumeLifecycleModes", _modes),
        (
            "spec.nodeAllocatableUpdatePeriodSeconds",
            at_least(10, "must be greater than or equal to 10 seconds"),
        ),
        ("spec", _secrets_with_requests),
        root=True,
    ),
    changes=(("spec.attachRequired", _changed_attachment), ("spec.volumeLifecycleModes", immutable)),
)


def _drivers(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    seen: set[str] = set()
    for index, one in enumerate(value):
        where, name, node = f"{at}[{index}]", one.get("name") or "", one.get("nodeID") or ""
        csi_driver_name(name, f"{where}.name", out, None)
        if not node:
            out.append(field_errors.required(f"{where}.nodeID"))
        if len(node) > _MAX_NODE_ID:
            detail = f"must be {_MAX_NODE_ID} characters or less"
            out.append(field_errors.invalid(f"{where}.nodeID", node, detail))
        count = map_member(one, "allocatable").get("count")
        if count is not None and not non_negative.is_valid(count):
            non_negative.report(count, f"{where}.allocatable.count", out)
        if name in seen:
            out.append(field_errors.duplicate(f"{where}.name", name))
        seen.add(name)
        _topology_keys(list_member(one, "topologyKeys"), where, out)


def _topology_keys(keys: list[Any], at: str, out: list[Cause]) -> None:
    seen: set[str] = set()
    for key in keys:
        if not key:
            out.append(field_errors.required(at))
        if key in seen:
            out.append(field_errors.duplicate(at, key))
        seen.add(key)
        out += [field_errors.invalid(at, key, problem) for problem in label_key_problems(key)]


def _changed_drivers(new: Any, old: Any, at: str, out: list[Cause]) -> None:
    """A driver stays as it is, but for the number of its volumes."""
    former = {one.get("name"): one for one in old or ()}
    for one in new or ():
        before = former.get(one.get("name"))
        if before is not None and not equal({**one, "allocatable": None}, {**before, "allocatable": None}):
            out.append(field_errors.invalid(at, one, "field is immutable"))


NODE_DRIVERS: Final = KindRules(
    rules=Table(("spec.drivers", _drivers), root=True), changes=(("spec.drivers", _changed_drivers),)
)


def _capacity(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if quantity(value).nanos < 0:
        out.append(field_errors.invalid(at, str(quantity(value)), "must be greater than or equal to 0"))


def _same_topology(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    after, before = new.get("nodeTopology"), old.get("nodeTopology")
    if (after is None) is not (before is None) or not equal(after, before):  # an empty selector selects all
        immutable(after, before, "nodeTopology", out)


CAPACITY: Final = KindRules(
    rules=Table(
        ("nodeTopology", label_selector),
        ("storageClassName", always(subdomain)),
        ("capacity", _capacity),
        root=True,
    ),
    changes=(("", _same_topology), ("storageClassName", immutable)),
)


def _source(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    source: dict[str, Any] = value or {}
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and volume is None:
        out.append(field_errors.required(at, detail))
    elif inline is not None and volume is not None:
        out.append(field_errors.forbidden(at, detail))
    elif volume == "":
        missing = "must specify non empty persistentVolumeName"
        out.append(field_errors.required(f"{at}.persistentVolumeName", missing))
    elif inline is not None:
        INLINE_VOLUME_SPEC(inline, f"{at}.inlineVolumeSpec", out, None)


def _named_volume(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    source: dict[str, Any] = value or {}
    name = source.get("persistentVolumeName")
    if name is not None:
        subdomain(name, f"{at}.persistentVolumeName", out, None)


ATTACHMENT: Final = KindRules(
    rules=Table(
        ("spec.attacher", always(csi_driver_name)),
        ("spec.source", always(_source)),
        ("spec.nodeName", always(subdomain)),
        ("spec.source", always(_named_volume)),
        root=True,
    ),
    changes=(("spec", immutable_struct),),
)


def _some_parameters(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    parameters(value or {}, at, out, None)
    if not value:
        out.append(field_errors.required(at, "must contain at least one key/value pair"))


def _fixed(_new: Any, _old: Any, at: str, out: list[Cause]) -> None:
    out.append(field_errors.forbidden(at, f"updates to {at} are forbidden."))


ATTRIBUTES_CLASS: Final = KindRules(
    rules=Table(("driverName", always(provisioner)), ("parameters", always(_some_parameters)), root=True),
    changes=(("driverName", _fixed), ("parameters", _fixed)),
    changes_first=True,
)


def _segment(value: str, at: str, out: list[Cause], _context: Any) -> None:
    out += [field_errors.invalid(at, value, problem) for problem in path_segment_problems(value)]


_PARENT: Final = Table(
    ("group", subdomain), ("resource", required, _segment), ("name", required, _segment), ("namespace", _segment)
)


def _parent(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if value is None:
        out.append(field_errors.required(at))
    else:
        _PARENT(value, at, out, None)


IP_ADDRESS: Final = KindRules(
    rules=Table(("spec.parentRef", always(_parent)), root=True), changes=(("spec.parentRef", immutable),)
)


def _ranges(value: list[str], at: str, out: list[Cause], _context: Any) -> None:
    if len(value) > 2:
        out.append(field_errors.invalid(at, {"cidrs": value}, "may only hold up to 2 values"))
        return
    for index, text in enumerate(value):
        if not cidr.is_valid(text):
            cidr.report(text, f"{at}[{index}]", out)
    families = [_family(text) for text in value]
    if len(families) == 2 and families[0] and families[0] == families[1]:
        example = "192.168.0.0/24 and 2001:db8::/64"
        detail = f"may specify no more than one IP for each IP family, i.e {example}"
        out.append(field_errors.invalid(at, value, detail))


def _family(text: str) -> int:
    """The IP version of a range, 0 if it is none; as upstream, leading zeros are no reason to have none."""
    if ":" not in text:
        text = _LEADING_ZEROS.sub("", text)
    try:
        return ipaddress.ip_network(text, strict=False).version if "/" in text else 0
    except ValueError:
        return 0


def _changed_ranges(new: Any, old: Any, at: str, out: list[Cause]) -> None:
    """The ranges stay as they are; a second one may be added, which makes the cluster dual-stack."""
    after: list[str] = new or []
    before: list[str] = old or []
    is_added = (len(before), len(after)) == (1, 2)
    if len(after) != len(before) and not is_added:
        immutable(after, before, at, out)
        return
    if is_added:
        _ranges(after, at, out, None)
    for index, (text, former) in enumerate(zip(after, before, strict=False)):
        if text != former:
            immutable(text, former, f"{at}[{index}]", out)


SERVICE_RANGE: Final = KindRules(
    rules=Table(("", on_create(Table(("spec.cidrs", Required("at least one CIDR required"), _ranges), root=True)))),
    changes=(("spec.cidrs", _changed_ranges),),
)
