"""The rules of Jobs and CronJobs, and of schedules and time zones."""

import re
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    bytes_at_most,
    domain_path,
    label_key_problems,
    label_problems,
    label_selector,
    non_negative,
    one_of,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_spec import check_template
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    KindRules,
    Required,
    Table,
    always,
    immutable,
    on_create,
)
from levelset.apiserver.registry.builtin.rules.workload_rules import counts, selects
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.registry.time_zones import zone_names
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects import BadSchedule, parse_schedule, split_time_zone

__all__ = ["CRON_JOB", "JOB", "schedule_problem"]

MAX_PARALLELISM: Final = 100_000
MANY_COMPLETIONS: Final = 100_000
LIMIT_WITH_MANY: Final = 10_000
ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
STATUSES: Final = ("False", "True", "Unknown")


def _quoted(values: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{one}"' for one in values) + "]"


def _failed_indexes(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    most = spec.get("maxFailedIndexes")
    if most is None:
        return
    if most < 0:
        non_negative.report(most, f"{at}.maxFailedIndexes", out)
    if spec.get("backoffLimitPerIndex") is None:
        out.append(field_errors.required(f"{at}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))


def _completion_mode(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    mode = spec.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        out.append(field_errors.not_supported(f"{at}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        _indexed(spec, at, out)
    if mode is None or mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                out.append(field_errors.invalid(f"{at}.{name}", spec[name], "requires indexed completion mode"))


def _indexed(spec: Any, at: str, out: list[Cause]) -> None:
    completions, parallelism, failed = spec.get("completions"), spec.get("parallelism"), spec.get("maxFailedIndexes")
    if completions is None:
        out.append(field_errors.required(f"{at}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > MAX_PARALLELISM:
        detail = f"must be less than or equal to {MAX_PARALLELISM} when completion mode is Indexed"
        out.append(field_errors.invalid(f"{at}.parallelism", parallelism, detail))
    if completions is not None and failed is not None and failed > completions:
        out.append(field_errors.invalid(f"{at}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > MAX_PARALLELISM:
        out.append(
            field_errors.invalid(f"{at}.maxFailedIndexes", failed, f"must be less than or equal to {MAX_PARALLELISM}")
        )
    if (completions or 0) <= MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return
    if failed is None:
        detail = f"must be specified when completions is above {MANY_COMPLETIONS}"
        out.append(field_errors.required(f"{at}.maxFailedIndexes", detail))
    detail = (
        f"must be less than or equal to {LIMIT_WITH_MANY} when completions are above {MANY_COMPLETIONS} and used with"
    )
    for name, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
        if value is not None and value > LIMIT_WITH_MANY:
            out.append(field_errors.invalid(f"{at}.{name}", value, f"{detail} backoff limit per index"))


def _failure_policy(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    policy, at = spec.get("podFailurePolicy"), f"{at}.podFailurePolicy.rules"
    rules = list_member(policy, "rules")
    if len(rules) > 20:
        out.append(field_errors.too_many(at, len(rules), 20))
    pod = map_member(map_member(spec, "template"), "spec")
    names = {one.get("name") for group in ("containers", "initContainers") for one in list_member(pod, group)}
    for index, rule in enumerate(rules):
        _failure_rule(rule, f"{at}[{index}]", out, names, per_index=spec.get("backoffLimitPerIndex") is not None)


def _failure_rule(rule: Any, at: str, out: list[Cause], names: set[Any], *, per_index: bool) -> None:
    action, codes, conditions = rule.get("action"), rule.get("onExitCodes"), list_member(rule, "onPodConditions")
    if not action:
        out.append(field_errors.required(f"{at}.action", _quoted(ACTIONS)))
    elif action == "FailIndex" and not per_index:
        out.append(field_errors.invalid(f"{at}.action", action, "requires the backoffLimitPerIndex to be set"))
    elif action not in ACTIONS:
        out.append(field_errors.not_supported(f"{at}.action", action, ACTIONS))
    if codes is not None:
        _exit_codes(codes, f"{at}.onExitCodes", out, names)
    if len(conditions) > 20:
        out.append(field_errors.too_many(f"{at}.onPodConditions", len(conditions), 20))
    for index, pattern in enumerate(conditions):
        where, kind = f"{at}.onPodConditions[{index}]", pattern.get("type") or ""
        out.extend([field_errors.invalid(f"{where}.type", kind, one) for one in label_key_problems(kind)])
        if pattern["status"] not in STATUSES:  # "True" by default
            out.append(field_errors.not_supported(f"{where}.status", pattern["status"], STATUSES))
    if codes is not None and conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        out.append(field_errors.invalid_without_value(at, detail))
    if codes is None and not conditions:
        detail = "specifying one of OnExitCodes and OnPodConditions is required"
        out.append(field_errors.invalid_without_value(at, detail))


def _exit_codes(codes: Any, at: str, out: list[Cause], names: set[Any]) -> None:
    operator, values = codes.get("operator"), list_member(codes, "values")
    if not operator:
        out.append(field_errors.required(f"{at}.operator", _quoted(("In", "NotIn"))))
    elif operator not in ("In", "NotIn"):
        out.append(field_errors.not_supported(f"{at}.operator", operator, ("In", "NotIn")))
    name = codes.get("containerName")
    if name is not None and name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        out.append(field_errors.invalid(f"{at}.containerName", name, detail))
    if not values:
        out.append(field_errors.invalid(f"{at}.values", codes.get("values"), "at least one value is required"))
    elif len(values) > 255:
        out.append(field_errors.too_many(f"{at}.values", len(values), 255))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            out.append(field_errors.invalid(f"{at}.values[{index}]", value, "must not be 0 for the In operator"))
        if value in seen:
            out.append(field_errors.duplicate(f"{at}.values[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        out.append(field_errors.invalid(f"{at}.values", values, "must be ordered"))


def _success_policy(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    policy, at = spec.get("successPolicy"), f"{at}.successPolicy"
    if policy is None:
        return
    if spec.get("completionMode") != "Indexed":
        out.append(field_errors.invalid(at, policy, "requires indexed completion mode"))
        return
    rules = list_member(policy, "rules")
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        out.append(field_errors.required(f"{at}.rules", detail))
    if len(rules) > 20:
        out.append(field_errors.too_many(f"{at}.rules", len(rules), 20))
    for index, rule in enumerate(rules):
        _success_rule(rule, f"{at}.rules[{index}]", out, spec.get("completions") or 0)


def _success_rule(rule: Any, at: str, out: list[Cause], completions: int) -> None:
    count, indexes, total = rule.get("succeededCount"), rule.get("succeededIndexes"), 0
    if count is None and indexes is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        out.append(field_errors.required(at, detail))
    if indexes is not None:
        try:
            total = sum(last - first + 1 for first, last in _index_ranges(indexes, completions))
        except ValueError as error:
            detail = f"error parsing succeededIndexes: {error}"
            out.append(field_errors.invalid(f"{at}.succeededIndexes", indexes, detail))
    if count is None:
        return
    if count < 0:
        non_negative.report(count, f"{at}.succeededCount", out)
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        out.append(field_errors.invalid(f"{at}.succeededCount", count, detail))
    if indexes is not None and count > total:
        detail = (
            f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        )
        out.append(field_errors.invalid(f"{at}.succeededCount", count, detail))


def _index_ranges(text: str, completions: int) -> list[tuple[int, int]]:
    """The ranges of a list of indexes such as 1,3-5; raises ValueError with the problem."""
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        numbers = part.split("-")
        if len(numbers) > 2:
            rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
            raise ValueError(f'the fragment "{part}" {rule}')
        limits = [_index(one, completions) for one in numbers]
        if len(limits) == 2 and limits[0] >= limits[1]:
            raise ValueError(f"non-increasing order, previous: {limits[0]}, current: {limits[1]}")
        if found and found[-1][1] >= limits[0]:
            raise ValueError(f"non-increasing order, previous: {found[-1][1]}, current: {limits[0]}")
        found.append((limits[0], limits[-1]))
    return found


def _index(text: str, completions: int) -> int:
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise ValueError(f'too large index: "{text}"')
    return int(text)


def _replacement_policy(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in allowed:
        out.append(field_errors.not_supported(f"{at}.podReplacementPolicy", policy, allowed))


def _template(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    check_template(map_member(spec, "template"), f"{at}.template", out)
    policy, at = (
        map_member(map_member(spec, "template"), "spec").get("restartPolicy"),
        f"{at}.template.spec.restartPolicy",
    )
    if policy in (None, "", "Always"):
        out.append(field_errors.required(at, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        out.append(field_errors.not_supported(at, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        out.append(field_errors.invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified'))


def _managed_by(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if value == "":  # behind a pointer: it is not absent
        out.append(field_errors.required(at))
    elif value is not None:
        domain_path(value, at, out, None)


JOB_SPEC: Final = Table(
    *counts("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    ("backoffLimitPerIndex", non_negative),
    ("", _failed_indexes),
    ("managedBy", always(_managed_by), bytes_at_most(63)),
    ("", _completion_mode),
    ("", _failure_policy),
    ("", _success_policy),
    ("", _replacement_policy),
    ("", _template),
)


def _selector(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    selector, before = spec.get("selector"), len(out)
    if selector is None:
        out.append(field_errors.required(f"{at}.selector"))
    else:
        label_selector(selector, f"{at}.selector", out, None)
    chosen = map_member(map_member(spec, "template"), "metadata").get("labels")
    if len(out) <= before + (selector is None) and not selects(selector, chosen or {}):
        path = f"{at}.template.metadata.labels"
        out.append(field_errors.invalid(path, chosen, "`selector` does not match template `labels`"))


UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")


def _generated_selector(job: Any, _at: str, out: list[Cause], _context: Any) -> None:
    """The labels of the template and the selector that the server generates, unless the selector is manual."""
    spec, metadata = map_member(job, "spec"), job["metadata"]
    uid, name = metadata.get("uid"), metadata.get("name") or ""
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    wanted = {UID_LABELS[0]: uid, NAME_LABELS[0]: name, UID_LABELS[1]: uid, NAME_LABELS[1]: name}
    chosen = map_member(map_member(map_member(spec, "template"), "metadata"), "labels")
    for key, value in wanted.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in chosen:
            out.append(field_errors.required(path, f"must be '{value}'"))
        elif chosen[key] != value:
            out.append(field_errors.invalid(path, chosen, f"must be '{value}'"))
    problems: list[Cause] = []
    label_selector(spec["selector"], "spec.selector", problems, None)
    if not problems and not selects(spec["selector"], wanted):
        out.append(field_errors.invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))


def _pod_names(job: Any, _at: str, out: list[Cause], _context: Any) -> None:
    spec, name = map_member(job, "spec"), job["metadata"].get("name") or ""
    if spec.get("completionMode") == "Indexed" and spec.get("completions"):
        longest = f"{name}-{spec['completions'] - 1}"
        if label_problems(longest):
            detail = f"will not able to create pod with invalid DNS label: {longest}"
            out.append(field_errors.invalid("metadata.name", name, detail))


def _spec_again(new: Any, _old: Any, _at: str, out: list[Cause]) -> None:
    """An update is checked as a new Job is, and then as an update, so causes in the spec occur twice."""
    JOB_SPEC(map_member(new, "spec"), "spec", out, None)
    _selector(map_member(new, "spec"), "spec", out, None)


def _completions_change(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    spec, former = map_member(new, "spec"), map_member(old, "spec")
    completions = spec.get("completions")
    if completions == former.get("completions"):
        return
    if spec.get("completionMode") != "Indexed":
        immutable(completions, None, "spec.completions", out)
    elif completions is not None and completions != spec.get("parallelism"):
        detail = "can only be modified in tandem with spec.parallelism"
        out.append(field_errors.invalid("spec.completions", completions, detail))


_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates")


def _template_change(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    spec, former = map_member(new, "spec"), map_member(old, "spec")
    template, before = map_member(spec, "template"), map_member(former, "template")
    if equal(template, before):
        return
    at = "spec.template"
    if former.get("suspend") and not _is_running(old):
        template, before, at = map_member(template, "spec"), map_member(before, "spec"), "spec.template.spec"
        template, before = _fixed(template, before), _fixed(before, template)
        if equal(template, before):
            return
    immutable(template, None, at, out)


def _is_running(job: Any) -> bool:
    """Whether a suspended Job still has pods, or does not have the condition yet."""
    status = map_member(job, "status")
    return bool(status.get("active") or (status.get("startTime") and "Suspended" not in _conditions(job)))


def _fixed(spec: Any, other: Any) -> Any:
    """What a suspended Job cannot change in its pods: all but scheduling, and the resources of its containers."""
    fixed = {name: value for name, value in spec.items() if name not in _SCHEDULING}
    affinity = {name: value for name, value in map_member(fixed, "affinity").items() if name != "nodeAffinity"}
    fixed["affinity"] = affinity
    for group in ("containers", "initContainers"):
        mine, theirs = list_member(spec, group), list_member(other, group)
        if len(mine) == len(theirs):
            fixed[group] = [{name: value for name, value in one.items() if name != "resources"} for one in mine]
    return fixed


def _conditions(job: Any) -> set[str]:
    return {
        one.get("type") for one in list_member(map_member(job, "status"), "conditions") if one.get("status") == "True"
    }


def _uncounted(status: Any, at: str, out: list[Cause], _context: Any) -> None:
    pods = map_member(status, "uncountedTerminatedPods")
    seen: set[str] = set()
    for group in ("succeeded", "failed"):
        for index, uid in enumerate(list_member(pods, group)):
            path = f"{at}.uncountedTerminatedPods.{group}[{index}]"
            if not uid:
                out.append(field_errors.invalid(path, uid, "must not be empty"))
            elif uid in seen:
                out.append(field_errors.duplicate(path, uid))
            seen.add(uid)


def _status_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    """The conditions, times and counters of a Job, as far as this update changes them."""
    status, former, spec = map_member(new, "status"), map_member(old, "status"), map_member(new, "spec")
    now, then = _conditions(new), _conditions(old)
    finished, was = bool(now & {"Complete", "Failed"}), bool(then & {"Complete", "Failed"})
    _finished(status, former, now, then, out)
    _finished_counts(new, old, out, finished=finished, changed=finished != was)
    _indexes(status, former, spec, out)
    terminating, ready = status.get("terminating"), status.get("ready")
    if (finished != was or terminating != former.get("terminating")) and (terminating or 0) > 0 and finished:
        detail = "terminating>0 is invalid for finished job"
        out.append(field_errors.invalid("status.terminating", terminating, detail))
    changed = ready != former.get("ready") or status.get("active") != former.get("active")
    if changed and ready is not None and ready > (status.get("active") or 0):
        out.append(field_errors.invalid("status.ready", ready, "cannot set more ready pods than active"))
    for other in ("Failed", "FailureTarget"):
        if {"SuccessCriteriaMet", other} <= now:
            detail = f"cannot set SuccessCriteriaMet=True and {other}=true conditions"
            out.append(field_errors.invalid_without_value("status.conditions", detail))
    if spec.get("successPolicy") is not None and "Complete" in now and "SuccessCriteriaMet" not in now:
        detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        out.append(field_errors.invalid_without_value("status.conditions", detail))
    _terminal(new, old, now, then, out)


def _finished(status: Any, former: Any, now: set[str], then: set[str], out: list[Cause]) -> None:
    """The conditions that exclude or need each other, as far as one of them changed."""

    def forbid(detail: str) -> None:
        out.append(field_errors.invalid_without_value("status.conditions", detail))

    changed = now ^ then
    start, end = status.get("startTime"), status.get("completionTime")
    end_changed = end != former.get("completionTime")
    if changed & {"Complete", "Failed"} and {"Complete", "Failed"} <= now:
        forbid("cannot set Complete=True and Failed=true conditions")
    if changed & {"Complete", "FailureTarget"} and {"Complete", "FailureTarget"} <= now:
        forbid("cannot set Complete=True and FailureTarget=true conditions")
    if ("Complete" in changed or end_changed) and end is not None and "Complete" not in now:
        detail = "cannot set completionTime when there is no Complete=True condition"
        out.append(field_errors.invalid("status.completionTime", end, detail))
    if ("Complete" in changed or end_changed) and end is None and "Complete" in now:
        out.append(field_errors.required("status.completionTime", "completionTime is required for Complete jobs"))
    if (start != former.get("startTime") or end_changed) and start and end and end < start:
        out.append(field_errors.invalid("status.completionTime", end, "must be equal to or after `startTime`"))
    failed_changed = "Failed" in changed or status.get("failedIndexes") != former.get("failedIndexes")
    if failed_changed and "Failed" in now and "FailureTarget" not in now:
        forbid("cannot set Failed=True condition without the FailureTarget=true condition")
    if changed & {"Complete", "SuccessCriteriaMet"} and "Complete" in now and "SuccessCriteriaMet" not in now:
        forbid("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _finished_counts(new: Any, old: Any, out: list[Cause], *, finished: bool, changed: bool) -> None:
    """What a finished Job cannot have any more; `changed` if it finishes with this update."""
    status, former, spec = map_member(new, "status"), map_member(old, "status"), map_member(new, "spec")
    if not finished:
        return
    active, start = status.get("active") or 0, status.get("startTime")
    if (changed or active != (former.get("active") or 0)) and active > 0:
        out.append(field_errors.invalid("status.active", active, "active>0 is invalid for finished job"))
    empty = spec.get("suspend") and spec.get("completions") == 0
    if (changed or start != former.get("startTime")) and not empty and start is None:
        out.append(field_errors.required("status.startTime", "startTime is required for finished job"))
    pods = map_member(status, "uncountedTerminatedPods")
    if any(pods.values()) and (changed or pods != map_member(former, "uncountedTerminatedPods")):
        path = "status.uncountedTerminatedPods"
        out.append(field_errors.invalid(path, pods, "must be empty for finished job"))


def _indexes(status: Any, former: Any, spec: Any, out: list[Cause]) -> None:
    completed, failed, completions = (
        status.get("completedIndexes"),
        status.get("failedIndexes"),
        spec.get("completions"),
    )
    per_index = spec.get("backoffLimitPerIndex") is not None
    if completions is not None and completed != former.get("completedIndexes"):
        _index_format("completedIndexes", completed or "", completions, out)
    failed_changed = failed != former.get("failedIndexes")
    if completions is not None and failed_changed and per_index and failed is not None:
        _index_format("failedIndexes", failed, completions, out)
    if completed != former.get("completedIndexes") and completed and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        out.append(field_errors.invalid("status.completedIndexes", completed, detail))
    if failed_changed and not per_index and failed is not None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        out.append(field_errors.invalid("status.failedIndexes", failed, detail))
    if completions is None or not failed or not completed:
        return
    try:
        done, lost = _index_ranges(completed, completions), _index_ranges(failed, completions)
    except ValueError:
        return
    common = [max(a, c) for a, b in done for c, d in lost if a <= d and c <= b]
    if common and (failed_changed or completed != former.get("completedIndexes")):
        detail = f"failedIndexes and completedIndexes overlap at index: {common[0]}"
        out.append(field_errors.invalid("status.failedIndexes", failed, detail))


def _index_format(name: str, text: str, completions: int, out: list[Cause]) -> None:
    try:
        _index_ranges(text, completions)
    except ValueError as error:
        out.append(field_errors.invalid(f"status.{name}", text, f"error parsing {name}: {error}"))


def _terminal(new: Any, old: Any, now: set[str], then: set[str], out: list[Cause]) -> None:
    status, former, spec = map_member(new, "status"), map_member(old, "status"), map_member(new, "spec")
    for name in ("Failed", "Complete", "FailureTarget"):
        if name in then and name not in now:
            detail = f"cannot disable the terminal {name}=True condition"
            out.append(field_errors.invalid_without_value("status.conditions", detail))
    grows = ["failed"]
    if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        grows.append("succeeded")
    for name in grows:
        if (status.get(name) or 0) < (former.get(name) or 0):
            detail = f"cannot decrease the {name} counter"
            out.append(field_errors.invalid(f"status.{name}", status.get(name) or 0, detail))
    end, start = status.get("completionTime"), status.get("startTime")
    if end is not None and former.get("completionTime") is not None and end != former["completionTime"]:
        immutable(end, None, "status.completionTime", out)
    if former.get("startTime") is not None and start != former["startTime"] and not spec.get("suspend"):
        detail = "field is immutable for unsuspended job once set"
        out.append(field_errors.invalid("status.startTime", start, detail))
    if "SuccessCriteriaMet" in then and "SuccessCriteriaMet" not in now:
        detail = "cannot disable the SuccessCriteriaMet=True condition"
        out.append(field_errors.invalid_without_value("status.conditions", detail))


JOB: Final = KindRules(
    rules=Table(
        ("", _generated_selector),
        ("spec", JOB_SPEC, _selector),
        ("", _pod_names),
        root=True,
    ),
    changes=(
        ("", _spec_again),
        ("", _completions_change),
        ("spec.selector", immutable),
        ("", _template_change),
        ("spec.completionMode", immutable),
        ("spec.podFailurePolicy", immutable),
        ("spec.backoffLimitPerIndex", immutable),
        ("spec.managedBy", immutable),
        ("spec.successPolicy", immutable),
    ),
    status=Table(
        ("status", Table(*counts("active", "succeeded", "failed", "ready", "terminating"), ("", _uncounted))),
        root=True,
    ),
    status_changes=(("", _status_changes),),
)


def _schedule(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    text, at = spec.get("schedule"), f"{at}.schedule"
    if not text:
        out.append(field_errors.required(at))
        return
    problem = schedule_problem(text)
    if problem:
        out.append(field_errors.invalid(at, text, problem))
    if "TZ" in text:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        out.append(field_errors.invalid(at, text, detail))


def schedule_problem(text: str) -> str:
    """The problem of a cron schedule; empty if it is valid."""
    zone, text = split_time_zone(text)
    if zone is not None and _zone_problem(zone):
        return f"provided bad location {zone}: {_zone_problem(zone)}"
    try:
        parse_schedule(text)
    except BadSchedule as error:
        return str(error)
    return ""


def _time_zone(spec: Any, at: str, out: list[Cause], old: Any) -> None:
    zone, at = spec.get("timeZone"), f"{at}.timeZone"
    if zone is None or (old is not None and map_member(old, "spec").get("timeZone") == zone):
        return
    if not zone:
        out.append(field_errors.invalid(at, zone, "timeZone must be nil or non-empty string"))
        return
    parts = zone.split("/")
    if any(
        one in (".", "..") or one.startswith("-") or not re.fullmatch(r"[A-Za-z.\-_0-9+]{1,14}", one) for one in parts
    ):
        out.append(field_errors.invalid(at, zone, f"unknown time zone {zone}"))
        return
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        out.append(field_errors.invalid(at, zone, detail))
    problem = _zone_problem(zone)
    if problem:
        out.append(field_errors.invalid(at, zone, problem))


def _zone_problem(zone: str) -> str:
    # Without any time zones on this machine every name is accepted.
    zones = zone_names()
    return "" if not zones or zone in zones or zone in ("", "UTC", "Local") else f"unknown time zone {zone}"


def _job_template(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    job, at = map_member(map_member(spec, "jobTemplate"), "spec"), f"{at}.jobTemplate.spec"
    JOB_SPEC(job, at, out, None)
    if job.get("selector") is not None:
        out.append(field_errors.invalid(f"{at}.selector", job["selector"], "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        out.append(field_errors.not_supported(f"{at}.manualSelector", True, ("nil", "false")))


def _cron_job_name(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    """The name must leave space for the names of the Jobs."""
    name = tree["metadata"].get("name") or ""
    if len(name) > 52:
        out.append(field_errors.invalid("metadata.name", name, "must be no more than 52 characters"))


CRON_JOB: Final = KindRules(
    rules=Table(
        (
            "spec",
            Table(
                ("", _schedule),
                ("startingDeadlineSeconds", non_negative),
                ("", _time_zone),
                ("concurrencyPolicy", Required(), one_of("Allow", "Forbid", "Replace")),
                ("", _job_template),
                ("successfulJobsHistoryLimit", non_negative),
                ("failedJobsHistoryLimit", non_negative),
            ),
        ),
        ("", on_create(_cron_job_name)),
        root=True,
    ),
)
