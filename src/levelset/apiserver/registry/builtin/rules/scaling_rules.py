"""The rules of HorizontalPodAutoscalers (v1 and v2) and PodDisruptionBudgets."""

from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    dns_label,
    int_or_percent,
    label_selector,
    one_of,
    positive,
    quantity,
)
from levelset.apiserver.registry.builtin.rules.meta_rules import check_conditions
from levelset.apiserver.registry.builtin.rules.pods.pod_containers import check_container_resource_name
from levelset.apiserver.registry.builtin.rules.rule_tables import KindRules, Required, Table, always, given, zero
from levelset.apiserver.registry.builtin.rules.workload_rules import counts, not_more_than_100
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.names import check_path_segment

__all__ = ["AUTOSCALER", "BUDGET"]

SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
TARGETS: Final = ("AverageValue", "Utilization", "Value")


def _segment(value: str, at: str, out: list[Cause], _context: Any) -> None:
    out.extend([field_errors.invalid(at, value, one) for one in check_path_segment(value)])


REFERENCE: Final = Table(("kind", Required(), _segment), ("name", Required(), _segment))


def _target_group(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    version = value.get("apiVersion") or ""
    if version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
        out.append(field_errors.invalid(f"{at}.apiVersion", version, detail))
    elif not version.partition("/")[2 if "/" not in version else 0] and value.get("kind") != "ReplicationController":
        detail = "apiVersion must specify API group"
        out.append(field_errors.invalid(f"{at}.apiVersion", version, detail))


def _has_version(value: Any) -> bool:
    return (value.get("apiVersion") or "").count("/") <= 1


def _described_object(value: Any, at: str, out: list[Cause], old: Any) -> None:
    found: Any = value or {}
    REFERENCE(found, at, out, old)
    former = list_member(map_member(old, "spec"), "metrics") if old else ()
    described = [map_member(map_member(one, "object"), "describedObject") for one in former]
    if not _has_version(found) and all(map(_has_version, described)):  # else one of them was invalid before
        version = found["apiVersion"]
        out.append(field_errors.invalid(f"{at}.apiVersion", version, f"unexpected GroupVersion string: {version}"))


def _scale_target(value: Any, at: str, out: list[Cause], context: Any) -> None:
    REFERENCE(value or {}, at, out, context)
    _target_group(value or {}, at, out, context)


def _zero_replicas(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    if spec.get("minReplicas") == 0 and not any(
        one.get("type") in ("Object", "External") for one in list_member(spec, "metrics")
    ):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        out.append(field_errors.forbidden(f"{at}.metrics", detail))


def _replicas(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if low is not None and low < 1:
        out.append(field_errors.invalid(f"{at}.minReplicas", low, "must be greater than or equal to 1"))
    if high == 0:
        out.append(field_errors.required(f"{at}.maxReplicas", "must be set and greater than 0"))
    elif high < 0:
        out.append(field_errors.invalid(f"{at}.maxReplicas", high, "must be greater than or equal to 1"))
    if low is not None and high < low:
        detail = "must be greater than or equal to `minReplicas`"
        out.append(field_errors.invalid(f"{at}.maxReplicas", high, detail))


def _target(given_target: Any, at: str, out: list[Cause], _context: Any) -> None:
    value: dict[str, Any] = given_target or {}
    kind = value.get("type") or ""
    if not kind:
        out.append(field_errors.required(f"{at}.type", "must specify a metric target type"))
    if kind not in TARGETS:
        out.append(field_errors.invalid(f"{at}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for name in ("value", "averageValue"):
        if value.get(name) is not None and quantity(value[name]).nanos <= 0:
            out.append(field_errors.invalid(f"{at}.{name}", str(quantity(value[name])), "must be positive"))
    used = value.get("averageUtilization")
    if used is not None and used < 1:
        out.append(field_errors.invalid(f"{at}.averageUtilization", used, "must be greater than 0"))


def _metric_name(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    metric: dict[str, Any] = value or {}
    name = metric.get("name") or ""
    if not name:
        out.append(field_errors.required(f"{at}.name", "must specify a metric name"))
    else:
        _segment(name, f"{at}.name", out, None)


def _metrics(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    used = spec.get("targetCPUUtilizationPercentage")  # the only metric of v1
    if used is not None and used < 1:
        where = f"{at}.metrics[0].resource.target.averageUtilization"
        out.append(field_errors.invalid(where, used, "must be greater than 0"))
    for index, metric in enumerate(list_member(spec, "metrics")):
        where, kind = f"{at}.metrics[{index}]", metric.get("type") or ""
        if not kind:
            out.append(field_errors.required(f"{where}.type", "must specify a metric source type"))
        if kind not in SOURCES:  # upstream checks it twice
            out.extend([field_errors.not_supported(f"{where}.type", kind, tuple(SOURCES))] * 2)
        given = [
            name
            for name in ("object", "external", "pods", "resource", "containerResource")
            if metric.get(name) is not None
        ]
        wanted = SOURCES.get(kind)
        if wanted is not None and wanted not in given:
            detail = "must populate information for the given metric source"
            out.append(field_errors.required(f"{where}.{wanted}", detail))
        if given:  # upstream checks only the first of them
            SOURCE[given[0]](metric[given[0]], f"{where}.{given[0]}", out, None)
        for name in given if len(given) > 1 else ():
            if name != wanted:
                out.append(field_errors.forbidden(f"{where}.{name}", "must populate the given metric source only"))


def _resource_target(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    target = map_member(value, "target")
    if target.get("averageUtilization") is not None and target.get("averageValue") is not None:
        detail = "may not set both a target raw value and a target utilization"
        out.append(field_errors.forbidden(f"{at}.target.averageValue", detail))
    elif target.get("averageUtilization") is None and target.get("averageValue") is None:
        detail = "must set either a target raw value or a target utilization"
        out.append(field_errors.required(f"{at}.target.averageUtilization", detail))


def _container_resource(value: str, at: str, out: list[Cause], _context: Any) -> None:
    check_container_resource_name(value, at, out)


def _needs(detail: str, *names: str) -> Any:
    """One of these values of a target is needed; the average value is reported."""

    def check(value: Any, at: str, out: list[Cause], _context: Any) -> None:
        target = map_member(value, "target")
        if all(target.get(name) is None for name in names):
            out.append(field_errors.required(f"{at}.target.averageValue", detail))

    return check


def _one_target(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    target = map_member(value, "target")
    if target.get("value") is not None and target.get("averageValue") is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        out.append(field_errors.forbidden(f"{at}.target.value", detail))


_TARGET: Final = ("target", always(_target))
_METRIC: Final = ("metric", always(_metric_name))
SOURCE: Final = {
    "resource": Table(("name", Required("must specify a resource name")), _TARGET, ("", _resource_target)),
    "containerResource": Table(
        ("name", Required("must specify a resource name"), _container_resource),
        ("container", Required("must specify a container"), dns_label),
        _TARGET,
        ("", _resource_target),
    ),
    "pods": Table(_METRIC, _TARGET, ("", _needs("must specify a positive target averageValue", "averageValue"))),
    "object": Table(
        ("describedObject", always(_described_object)),
        _METRIC,
        _TARGET,
        ("", _needs("must set either a target value or averageValue", "value", "averageValue")),
    ),
    "external": Table(
        _METRIC,
        _TARGET,
        ("", _needs("must set either a target value for metric or a per-pod target", "value", "averageValue")),
        ("", _one_target),
    ),
}


def _behavior(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    for name in ("scaleUp", "scaleDown"):
        rules, where = value.get(name), f"{at}.{name}"
        if rules is None:
            continue
        window = rules.get("stabilizationWindowSeconds")
        if window is not None and window < 0:
            out.append(
                field_errors.invalid(
                    f"{where}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"
                )
            )
        if window is not None and window > 3600:
            detail = "must be less than or equal to 3600"
            out.append(field_errors.invalid(f"{where}.stabilizationWindowSeconds", window, detail))
        if rules.get("selectPolicy") not in (None, "Disabled", "Max", "Min"):
            out.append(
                field_errors.not_supported(f"{where}.selectPolicy", rules["selectPolicy"], ("Disabled", "Max", "Min"))
            )
        if not rules.get("policies"):
            out.append(field_errors.required(f"{where}.policies", "must specify at least one Policy"))
        for index, policy in enumerate(list_member(rules, "policies")):
            POLICY(policy, f"{where}.policies[{index}]", out, None)
        tolerance = rules.get("tolerance")
        if tolerance is not None and quantity(tolerance).nanos < 0:
            out.append(field_errors.invalid(f"{where}.tolerance", tolerance, "must be greater than or equal to 0"))


def _policy_type(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if value not in ("Percent", "Pods"):
        out.append(field_errors.not_supported(at, value or "", ("Percent", "Pods")))


def _short_period(value: int, at: str, out: list[Cause], _context: Any) -> None:
    if value > MAX_PERIOD_SECONDS:
        out.append(field_errors.invalid(at, value, f"must be less than or equal to {MAX_PERIOD_SECONDS}"))


MAX_PERIOD_SECONDS: Final = 1800
POLICY: Final = Table(
    ("type", always(_policy_type)),
    ("value", zero, positive),
    ("periodSeconds", zero, positive, _short_period),
)
AUTOSCALER: Final = KindRules(
    rules=Table(
        (
            "spec",
            Table(
                ("", _replicas),
                ("scaleTargetRef", always(_scale_target)),
                ("", _metrics),
                ("", _zero_replicas),
                ("behavior", _behavior),
            ),
        ),
        root=True,
    ),
    status=Table(("status", Table(*counts("currentReplicas", "desiredReplicas"))), root=True),
)


def _either(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        out.append(field_errors.invalid(at, spec, "minAvailable and maxUnavailable cannot be both set"))


BUDGET: Final = KindRules(
    rules=Table(
        (
            "spec",
            Table(
                ("", _either),
                ("minAvailable", always(int_or_percent), not_more_than_100),
                ("maxUnavailable", always(int_or_percent), not_more_than_100),
                ("selector", label_selector),
                ("unhealthyPodEvictionPolicy", given(one_of("AlwaysAllow", "IfHealthyBudget"))),
            ),
        ),
        root=True,
    ),
    status=Table(
        ("status.conditions", check_conditions),
        ("status", Table(*counts("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"))),
        root=True,
    ),
)
