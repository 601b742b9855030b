"""Whatever changes a user makes to a Deployment, in whatever order: afterwards it converges and stays converged."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from levelset import replace
from levelset.kinds.apps_v1 import Deployment, ReplicaSet, ReplicaSetStatus
from levelset.testing import START
from levelset_local.deployments import Plan, make_plan
from levelset_local.deployments.revisions import REVISION, revision_of
from levelset_local.deployments.status import is_complete
from systems.local.tests.cluster_queries import status_of
from systems.local.tests.samples import deployment


def fresh(**spec: Any) -> Deployment:
    made = deployment(progressDeadlineSeconds=600, revisionHistoryLimit=2, **spec)
    return made.with_metadata(uid="uid-web", namespace="test", generation=1)


@dataclass
class SimulatedDeployment:
    """A Deployment and its ReplicaSets, which reach their desired sizes whenever `act` is called."""

    owner: Deployment
    sets: dict[str, ReplicaSet] = field(default_factory=dict[str, ReplicaSet])
    seconds: int = 0
    made: int = 0

    def edit(self, **changes: Any) -> None:
        self.owner = self.owner.with_spec(**changes).with_metadata(generation=self.owner.metadata.generation + 1)

    def image(self, number: int) -> None:
        template = self.owner.spec.template
        container = replace(template.spec.containers[0], image=f"web:{number}")
        self.edit(template=replace(template, spec=replace(template.spec, containers=(container,))))

    def plan(self) -> Plan:
        self.seconds += 1
        plan = make_plan(self.owner, list(self.sets.values()), now=START + timedelta(seconds=self.seconds))
        if plan.new is not None:
            assert plan.new.name not in self.sets
            self.made += 1
            at = START + timedelta(seconds=self.seconds)
            self.sets[plan.new.name] = plan.new.with_metadata(
                uid=f"uid-{self.made}", generation=1, creation_timestamp=at
            )
        for one in plan.sets:
            is_new_spec = one.spec != self.sets[one.name].spec
            self.sets[one.name] = one.with_metadata(generation=one.metadata.generation + is_new_spec)
        for one in plan.delete:
            del self.sets[one.name]
        marks = {} if plan.revision is None else {REVISION: plan.revision}
        annotations = {**self.owner.metadata.annotations, **marks}
        self.owner = self.owner.with_status(plan.status).with_metadata(annotations=annotations)
        return plan

    def act(self) -> None:
        for name, one in self.sets.items():
            count = one.spec.replicas or 0
            status = ReplicaSetStatus(
                replicas=count,
                ready_replicas=count,
                available_replicas=count,
                terminating_replicas=0,
                observed_generation=one.metadata.generation,
            )
            self.sets[name] = one.with_status(status)


EVENTS = st.one_of(
    st.tuples(st.just("image"), st.integers(0, 3)),
    st.tuples(st.just("size"), st.integers(0, 7)),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.sampled_from(["plan", "act"]), st.none()),
)


@settings(max_examples=100)
@given(st.lists(EVENTS, max_size=40), st.sampled_from(["RollingUpdate", "Recreate"]))
def test_every_course_of_changes_converges(course: list[tuple[str, Any]], strategy: str) -> None:
    simulated = SimulatedDeployment(fresh(strategy={"type": strategy}))
    for event, value in course:
        match event:
            case "image":
                simulated.image(value)
            case "size":
                simulated.edit(replicas=value)
            case "pause":
                simulated.edit(paused=value)
            case "plan":
                simulated.plan()
            case _:
                simulated.act()
    simulated.edit(paused=False)
    for _ in range(60):
        simulated.plan()
        simulated.act()
    before = (simulated.owner, dict(simulated.sets))
    plan = simulated.plan()
    assert (simulated.owner, simulated.sets) == before
    assert (plan.new, plan.delete, plan.requeue_at) == (None, (), None)
    check_end(simulated)


def check_end(simulated: SimulatedDeployment) -> None:
    status = status_of(simulated.owner)
    assert is_complete(simulated.owner, status)
    sizes = sorted((one.spec.replicas or 0 for one in simulated.sets.values()), reverse=True)
    assert sizes == [simulated.owner.spec.replicas, *[0] * (len(sizes) - 1)]
    assert len(sizes) <= 3  # the current one, and two to go back to
    numbers = [revision_of(one) for one in simulated.sets.values()]
    assert len(set(numbers)) == len(numbers)
    assert simulated.owner.metadata.annotations[REVISION] == str(max(numbers))
    reasons = {one.type: one.reason for one in status.conditions}
    assert reasons == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
