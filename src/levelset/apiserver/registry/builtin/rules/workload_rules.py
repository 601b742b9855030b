"""The rules of the workloads that keep pods running, and of ControllerRevisions."""

from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    annotations,
    dns_label,
    int_or_percent,
    is_percent,
    label_selector,
    labels,
    non_negative,
    one_of,
    percent_value,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_spec import check_pod_annotations, check_template
from levelset.apiserver.registry.builtin.rules.pods.pod_volumes import CLAIM_SPEC
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    KindRules,
    Required,
    Table,
    always,
    immutable,
    on_create,
)
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import BadSelector, Cause
from levelset.objects.label_selectors import LabelSelector

__all__ = [
    "CONTROLLER_REVISION",
    "DAEMON_SET",
    "DEPLOYMENT",
    "REPLICATION_CONTROLLER",
    "REPLICA_SET",
    "STATEFUL_SET",
    "counts",
    "not_above",
    "not_more_than_100",
    "selects",
]


def selects(selector: Any, chosen: dict[str, str]) -> bool:
    """Whether a valid label selector matches labels; an absent one matches none, and one without requirements all."""
    if selector is None:
        return False
    if not selector.get("matchExpressions"):
        return (selector.get("matchLabels") or {}).items() <= chosen.items()
    try:
        return LabelSelector.from_tree(selector).matches(chosen)
    except BadSelector:
        return False


def _is_empty(selector: Any) -> bool:
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def _template_labels(spec: Any) -> Any:
    return map_member(map_member(spec, "template"), "metadata").get("labels")


def _mismatch(spec: Any, at: str, out: list[Cause]) -> None:
    chosen = _template_labels(spec)
    path = f"{at}.template.metadata.labels"
    out.append(field_errors.invalid(path, chosen, "`selector` does not match template `labels`"))


def _always_restarts(spec: Any, at: str, out: list[Cause], kind: str) -> None:
    pod = map_member(map_member(spec, "template"), "spec")
    if pod.get("restartPolicy") != "Always":
        out.append(
            field_errors.not_supported(f"{at}.template.spec.restartPolicy", pod.get("restartPolicy"), ("Always",))
        )
    if pod.get("activeDeadlineSeconds") is not None:
        path = f"{at}.template.spec.activeDeadlineSeconds"
        out.append(field_errors.forbidden(path, f"activeDeadlineSeconds in {kind} is not Supported"))


def _selector(spec: Any, at: str, out: list[Cause], kind: str) -> bool:
    """Checks a required selector; returns whether it is valid, so that the template can be compared with it."""
    selector, before = spec.get("selector"), len(out)
    if selector is None:
        out.append(field_errors.required(f"{at}.selector"))
        return True
    label_selector(selector, f"{at}.selector", out, None)
    valid = len(out) == before
    if _is_empty(selector):
        out.append(field_errors.invalid(f"{at}.selector", selector, f"empty selector is invalid for {kind}"))
    return valid


def _replicated_template(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    """The selector and the template of a Deployment or a ReplicaSet."""
    selector = spec.get("selector")
    if not _selector(spec, at, out, "deployment"):
        out.append(field_errors.invalid(f"{at}.selector", selector, "invalid label selector"))
        return
    if not _is_empty(selector) and not selects(selector, _template_labels(spec) or {}):
        _mismatch(spec, at, out)
    check_template(map_member(spec, "template"), f"{at}.template", out)
    _always_restarts(spec, at, out, "ReplicaSet")


def not_more_than_100(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """A percentage of at most 100."""
    if is_percent(value) and percent_value(value) > 100:
        out.append(field_errors.invalid(at, value, "must not be greater than 100%"))


def _both_zero(rolling: Any, at: str, out: list[Cause], _context: Any) -> None:
    unavailable = rolling.get("maxUnavailable", 0)
    if percent_value(unavailable) == 0 and percent_value(rolling.get("maxSurge", 0)) == 0:
        out.append(field_errors.invalid(f"{at}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))


_DEPLOYMENT_ROLLING: Final = Table(
    ("maxUnavailable", always(int_or_percent)),
    ("maxSurge", always(int_or_percent)),
    ("", _both_zero),
    ("maxUnavailable", not_more_than_100),
)


def _deployment_strategy(strategy: Any, at: str, out: list[Cause], _context: Any) -> None:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            out.append(field_errors.forbidden(f"{at}.rollingUpdate", detail))
    elif kind == "RollingUpdate":
        _DEPLOYMENT_ROLLING(rolling or {}, f"{at}.rollingUpdate", out, None)
    else:
        shown = {"Type": kind, "RollingUpdate": rolling}
        out.append(field_errors.not_supported(at, shown, ("Recreate", "RollingUpdate")))


def _progress_deadline(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    seconds = spec.get("progressDeadlineSeconds")
    if seconds is None:
        return
    if seconds < 0:
        non_negative.report(seconds, f"{at}.progressDeadlineSeconds", out)
    if seconds <= (spec.get("minReadySeconds") or 0):
        out.append(
            field_errors.invalid(f"{at}.progressDeadlineSeconds", seconds, "must be greater than minReadySeconds")
        )


def counts(*names: str) -> tuple[tuple[Any, ...], ...]:
    """Lines for numbers that may not be negative."""
    return tuple((name, non_negative) for name in names)


def not_above(limit: str, *names: str, shown: str = "") -> Any:
    """A check that numbers are not greater than another number of the same map."""

    def check(value: Any, at: str, out: list[Cause], _context: Any) -> None:
        most = value.get(limit) or 0
        for name in names:
            if (value.get(name) or 0) > most:
                detail = f"cannot be greater than {shown or f'status.{limit}'}"
                out.append(field_errors.invalid(f"{at}.{name}", value.get(name) or 0, detail))

    return check


def _collisions(new: Any, old: Any, at: str, out: list[Cause]) -> None:
    if old is not None and (new or 0) < old:
        out.append(field_errors.invalid(at, new or 0, "cannot be decremented"))


COLLISIONS: Final = (("status.collisionCount", _collisions),)
DEPLOYMENT: Final = KindRules(
    rules=Table(
        (
            "spec",
            Table(
                ("replicas", non_negative),
                ("", _replicated_template),
                ("strategy", _deployment_strategy),
                ("minReadySeconds", non_negative),
                ("revisionHistoryLimit", non_negative),
                ("", _progress_deadline),
            ),
        ),
        root=True,
    ),
    changes=(("spec.selector", immutable),),
    status=Table(
        (
            "status",
            Table(
                *counts("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
                *counts("unavailableReplicas", "terminatingReplicas", "collisionCount"),
                ("", not_above("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")),
                ("", not_above("readyReplicas", "availableReplicas", shown="readyReplicas")),
            ),
        ),
        root=True,
    ),
    status_changes=COLLISIONS,
)
_REPLICA_STATUS: Final = Table(
    (
        "status",
        Table(
            *counts("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
            *counts("observedGeneration", "terminatingReplicas"),
            ("", not_above("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")),
            ("", not_above("readyReplicas", "availableReplicas", shown="readyReplicas")),
        ),
    ),
    root=True,
)
REPLICA_SET: Final = KindRules(
    rules=Table(
        ("spec", Table(*counts("replicas", "minReadySeconds"), ("", _replicated_template))),
        root=True,
    ),
    changes=(("spec.selector", immutable),),
    status=_REPLICA_STATUS,
)


def _controlled_template(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    selector, template = map_member(spec, "selector"), spec.get("template")
    if template is None:
        out.append(field_errors.required(f"{at}.template"))
        return
    chosen = map_member(map_member(template, "metadata"), "labels")
    if selector and any(chosen.get(key) != value for key, value in selector.items()):
        _mismatch(spec, at, out)
    check_template(template, f"{at}.template", out)
    _always_restarts(spec, at, out, "ReplicationController")


REPLICATION_CONTROLLER: Final = KindRules(
    rules=Table(
        (
            "spec",
            Table(
                ("minReadySeconds", non_negative),
                ("selector", Required()),
                ("replicas", non_negative),
                ("", _controlled_template),
            ),
        ),
        root=True,
    ),
    status=_REPLICA_STATUS,
)


def _update_strategy(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    strategy, at = map_member(spec, "updateStrategy"), f"{at}.updateStrategy"
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            out.append(field_errors.invalid(f"{at}.rollingUpdate", rolling, detail))
    elif kind != "RollingUpdate":
        out.append(field_errors.invalid(at, strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    elif rolling is not None:
        _SET_ROLLING(rolling, f"{at}.rollingUpdate", out, None)


_SET_ROLLING: Final = Table(("partition", non_negative))
_RETENTION: Final = one_of("Retain", "Delete")


def _management_policy(value: str, at: str, out: list[Cause], _context: Any) -> None:
    if value not in ("OrderedReady", "Parallel"):
        out.append(field_errors.invalid(at, value, "must be 'OrderedReady' or 'Parallel'"))


def _service_name(value: str, at: str, out: list[Cause], old: Any) -> None:
    if old is None and not dns_label.is_valid(value):
        dns_label.report(value, at, out)


def _claims(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    for index, claim in enumerate(list_member(spec, "volumeClaimTemplates")):
        CLAIM_SPEC(map_member(claim, "spec"), f"{at}.volumeClaimTemplates[{index}].spec", out, None)


def _ordinals(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    start = map_member(spec, "ordinals").get("start") or 0
    if start < 0:
        non_negative.report(start, f"{at}.ordinals.start", out)


def _set_template(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    """The selector and the template of a StatefulSet, whose claims are volumes of its pods."""
    selector = spec.get("selector")
    if not _selector(spec, at, out, "statefulset"):
        out.append(field_errors.invalid(f"{at}.selector", selector, ""))
    else:
        if not _is_empty(selector) and not selects(selector, _template_labels(spec) or {}):
            _mismatch(spec, at, out)
        template = _with_claims(spec)
        check_template(template, f"{at}.template", out)
        metadata = map_member(template, "metadata")
        labels(map_member(metadata, "labels"), f"{at}.template.labels", out, None)
        annotations(map_member(metadata, "annotations"), f"{at}.template.annotations", out, None)
        notes = map_member(metadata, "annotations")
        check_pod_annotations(notes, map_member(template, "spec"), f"{at}.template.annotations", out)
    _always_restarts(spec, at, out, "StatefulSet")


def _with_claims(spec: Any) -> Any:
    template, claims = map_member(spec, "template"), list_member(spec, "volumeClaimTemplates")
    pod = map_member(template, "spec")
    if not claims and not pod.get("hostname") and not pod.get("subdomain"):
        return template
    names = [map_member(one, "metadata").get("name") or "" for one in claims]
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in dict.fromkeys(names)]
    volumes += [one for one in list_member(pod, "volumes") if one.get("name") not in names]
    return {**template, "spec": {**pod, "hostname": "", "subdomain": "", "volumes": volumes}}


def _set_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    mutable = (
        *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
        *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
    )
    after, before = map_member(new, "spec"), map_member(old, "spec")
    changed = [one for one in after.keys() | before.keys() if one not in mutable]
    if any(not equal(after.get(one), before.get(one)) for one in changed):
        listed = ", ".join(f"'{one}'" for one in mutable[:-1])
        detail = f"updates to statefulset spec for fields other than {listed} and 'minReadySeconds' are forbidden"
        out.append(field_errors.forbidden("spec", detail))


STATEFUL_SET: Final = KindRules(
    rules=Table(
        (
            "spec",
            Table(
                ("podManagementPolicy", Required(), _management_policy),
                ("", _update_strategy),
                (
                    "persistentVolumeClaimRetentionPolicy",
                    Table(("whenDeleted", _RETENTION), ("whenScaled", _RETENTION)),
                ),
                ("", on_create(_claims)),
                ("replicas", non_negative),
                ("minReadySeconds", non_negative),
                ("", _ordinals),
                ("serviceName", _service_name),
                ("", _set_template),
            ),
        ),
        root=True,
    ),
    changes=(("", _set_changes),),
    status=Table(
        (
            "status",
            Table(
                *counts("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
                *counts("observedGeneration", "collisionCount"),
                ("", not_above("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")),
                ("", not_above("readyReplicas", "availableReplicas")),
            ),
        ),
        root=True,
    ),
    status_changes=COLLISIONS,
)


def _daemon_template(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    selector, before = spec.get("selector"), len(out)
    if selector is not None:
        label_selector(selector, f"{at}.selector", out, None)
    if len(out) == before and not selects(selector, _template_labels(spec) or {}):
        _mismatch(spec, at, out)
    if _is_empty(selector):
        out.append(field_errors.invalid(f"{at}.selector", selector, "empty selector is invalid for daemonset"))
    check_template(map_member(spec, "template"), f"{at}.template", out)
    _always_restarts(spec, at, out, "DaemonSet")


def _surge_or_unavailable(rolling: Any, at: str, out: list[Cause], _context: Any) -> None:
    unavailable = percent_value(rolling.get("maxUnavailable", 0)) != 0
    surge = percent_value(rolling.get("maxSurge", 0)) != 0
    if unavailable and surge:
        detail = "may not be set when maxUnavailable is non-zero"
        out.append(field_errors.invalid(f"{at}.maxSurge", rolling.get("maxSurge"), detail))
    elif not unavailable and not surge:
        out.append(field_errors.required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


_DAEMON_ROLLING: Final = Table(
    ("maxUnavailable", always(int_or_percent)),
    ("maxSurge", always(int_or_percent)),
    ("maxUnavailable", not_more_than_100),
    ("maxSurge", not_more_than_100),
    ("", _surge_or_unavailable),
)


def _daemon_strategy(strategy: Any, at: str, out: list[Cause], _context: Any) -> None:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        _DAEMON_ROLLING(rolling, f"{at}.rollingUpdate", out, None)
    elif kind != "OnDelete":
        shown = {"Type": kind, "RollingUpdate": rolling}
        out.append(field_errors.not_supported(at, shown, ("RollingUpdate", "OnDelete")))


DAEMON_SET: Final = KindRules(
    rules=Table(
        (
            "spec",
            Table(
                ("", _daemon_template),
                ("minReadySeconds", non_negative),
                ("updateStrategy", _daemon_strategy),
                ("revisionHistoryLimit", non_negative),
            ),
        ),
        root=True,
    ),
    changes=(("spec.selector", immutable),),
    changes_first=True,
    status=Table(
        (
            "status",
            Table(
                *counts("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
                *counts("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"),
                *counts("collisionCount"),
            ),
        ),
        root=True,
    ),
    status_changes=COLLISIONS,
)


def _revision_data(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    data = tree.get("data")
    if data is None:
        out.append(field_errors.required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        out.append(field_errors.required("data", "data must be a valid JSON object"))


def _revision_change(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    # Any JSON, which Go compares as it is: an empty value is not an absent one.
    if new.get("data") != old.get("data"):
        immutable(new.get("data"), old.get("data"), "data", out)


CONTROLLER_REVISION: Final = KindRules(
    rules=Table(("revision", non_negative), ("", on_create(_revision_data)), root=True),
    changes=(("", _revision_change),),
)
