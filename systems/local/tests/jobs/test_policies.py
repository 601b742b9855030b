"""The policies of Jobs: pod failure policies, limits of each index, and success policies."""

from datetime import datetime, timedelta
from typing import Any

from levelset import replace
from levelset.kinds.batch_v1 import Job
from levelset.kinds.core_v1 import Pod, PodCondition
from levelset.testing import START
from levelset_local.jobs import FINALIZER, Plan, make_plan
from levelset_local.jobs.completion_indexes import INDEX
from levelset_local.jobs.policies import FAILURE_COUNT
from systems.local.tests.samples import job, pod


def stored(**spec: Any) -> Job:
    given = {"parallelism": 2, "completions": 2, "backoffLimit": 6, "suspend": False, "completionMode": "Indexed"}
    return job(**{**given, **spec}).with_metadata(uid="uid-sum", namespace="test", generation=1)


def failed(name: str, index: int, *, code: int = 1, failures: int = 0, at: datetime = START) -> Pod:
    annotations = {INDEX: str(index), FAILURE_COUNT: str(failures)}
    made = pod(name, finalizers=(FINALIZER,), phase="Failed", ended=at, exit_code=code)
    return made.with_metadata(annotations=annotations, namespace="test")


def succeeded(name: str, index: int) -> Pod:
    made = pod(name, finalizers=(FINALIZER,), phase="Succeeded", ended=START, exit_code=0)
    return made.with_metadata(annotations={INDEX: str(index)})


def conditions(plan: Plan) -> dict[str, tuple[str | None, str | None]]:
    return {one.type: (one.reason, one.message) for one in plan.status.conditions}


def policy(*rules: Any) -> Any:
    return {"rules": list(rules)}


def exits(action: str, *values: int, operator: str = "In") -> Any:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values)}}


def test_an_exit_code_of_the_policy_fails_the_job() -> None:
    owner = stored(podFailurePolicy=policy(exits("Ignore", 3), exits("FailJob", 1)))
    plan = make_plan(owner, [failed("a", 0)], now=START)
    reason, message = conditions(plan)["FailureTarget"]
    assert reason == "PodFailurePolicy"
    assert message is not None
    assert message.endswith("for pod test/a failed with exit code 1 matching FailJob rule at index 1")


def test_an_ignored_failure_does_not_count_and_is_replaced_at_once() -> None:
    owner = stored(podFailurePolicy=policy(exits("Ignore", 1)), backoffLimit=0, completions=1, parallelism=1)
    plan = make_plan(owner, [failed("a", 0)], now=START)
    assert (plan.status.failed, plan.create) == (0, (0,))
    assert [one.name for one in plan.release] == ["a"]


def test_a_condition_of_the_pod_matches_a_rule() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    owner = stored(podFailurePolicy=policy(rule), backoffLimit=0)
    one = failed("a", 0)
    assert one.status is not None
    evicted = one.with_status(replace(one.status, conditions=(PodCondition(type="DisruptionTarget", status="True"),)))
    assert make_plan(owner, [evicted], now=START).status.failed == 0
    assert "FailureTarget" in conditions(make_plan(owner, [one], now=START))


def test_an_index_fails_when_its_own_limit_is_exceeded_and_the_others_go_on() -> None:
    owner = stored(backoffLimitPerIndex=1, completions=3)
    plan = make_plan(owner, [failed("a", 0, failures=1), succeeded("b", 1)], now=START)
    assert (plan.status.failed_indexes, plan.status.completed_indexes) == ("0", "1")
    assert plan.create == (2,)
    assert "FailureTarget" not in conditions(plan)


def test_each_index_has_a_back_off_of_its_own() -> None:
    owner = stored(backoffLimitPerIndex=3, completions=3, parallelism=3)
    pods = [failed("a", 0, failures=1)]
    plan = make_plan(owner, pods, now=START)
    assert (plan.create, plan.requeue_at) == ((1, 2), START + timedelta(seconds=20))
    assert make_plan(owner, pods, now=START + timedelta(seconds=20)).create == (0, 1, 2)


def test_a_job_whose_indexes_have_all_ended_fails_if_one_has_failed() -> None:
    owner = stored(backoffLimitPerIndex=0)
    plan = make_plan(owner, [failed("a", 0), succeeded("b", 1)], now=START)
    assert conditions(plan)["FailureTarget"] == ("FailedIndexes", "Job has failed indexes")


def test_too_many_failed_indexes_end_the_job() -> None:
    owner = stored(backoffLimitPerIndex=0, maxFailedIndexes=1, completions=9)
    assert "FailureTarget" not in conditions(make_plan(owner, [failed("a", 0)], now=START))
    plan = make_plan(owner, [failed("a", 0), failed("b", 1)], now=START)
    assert conditions(plan)["FailureTarget"][0] == "MaxFailedIndexesExceeded"


def test_a_rule_fails_the_index_whatever_its_limit() -> None:
    owner = stored(backoffLimitPerIndex=5, podFailurePolicy=policy(exits("FailIndex", 42)))
    assert make_plan(owner, [failed("a", 0, code=42)], now=START).status.failed_indexes == "0"
    assert make_plan(owner, [failed("a", 0, code=41)], now=START).status.failed_indexes == ""


def test_a_success_policy_completes_the_job_early() -> None:
    owner = stored(completions=5, successPolicy=policy({"succeededIndexes": "0-2", "succeededCount": 2}))
    assert "SuccessCriteriaMet" not in conditions(make_plan(owner, [succeeded("a", 0)], now=START))
    plan = make_plan(owner, [succeeded("a", 0), succeeded("c", 2)], now=START)
    assert conditions(plan)["SuccessCriteriaMet"] == ("SuccessPolicy", "Matched rules at index 0")


def test_a_success_policy_without_a_count_needs_all_its_indexes() -> None:
    owner = stored(completions=5, successPolicy=policy({"succeededIndexes": "0,2"}))
    assert "SuccessCriteriaMet" not in conditions(make_plan(owner, [succeeded("a", 0)], now=START))
    plan = make_plan(owner, [succeeded("a", 0), succeeded("c", 2)], now=START)
    assert "SuccessCriteriaMet" in conditions(plan)
