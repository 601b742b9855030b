"""A schema and its class agree: what the class can hold, the schema lets pass, and nothing is lost on the way."""

import enum
from datetime import datetime
from typing import Annotated, Any

from levelset.apiserver.schema import check_structural, compile_schema
from levelset.codegen.crd import crd_of
from levelset.codegen.schema import schema_of
from levelset.kinds.batch_v1 import CronJob
from levelset.kinds.core_v1 import Pod, PodTemplateSpec, Service
from levelset.objects import Condition, Meta, Model, Quantity, Resource, Spec, Status, decode, encode_tree, to_tree
from levelset.runtime.webhook import make_samples
from tests.apiserver.clock import virtual
from tests.client.world import open_client


class Color(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Port(Model):
    name: str
    number: Annotated[int, Meta(ge=1, le=65535)]
    target: int | str | None = None


class StallSpec(Spec):
    image: str
    replicas: Annotated[int, Meta(ge=0)] = 1
    color: Color = Color.RED
    maybe: int | None = 3
    share: float = 0.5
    ports: tuple[Port, ...] = ()
    memory: Quantity = Quantity("1Gi")
    opened: datetime | None = None
    limits: dict[str, Quantity] = {}
    settings: dict[str, Any] = {}
    anything: Any = None
    front: Port | None = None


class StallStatus(Status):
    sold: int = 0
    conditions: tuple[Condition, ...] = ()


class Stall(Resource[StallSpec, StallStatus], api="trade.example.dev/v1"):
    """A small shop."""


def test_what_a_class_can_hold_passes_its_schema_and_comes_back_the_same():
    compiled = compile_schema(schema_of(Stall))
    for one in make_samples(Stall, count=200):
        plain = Stall(metadata=one.metadata, spec=one.spec, status=one.status)
        tree = to_tree(plain)
        admission = compiled.admit(tree)
        # Two conditions of one type are what a class can hold, and a server cannot.
        assert [cause for cause in admission.causes if cause.reason != "FieldValueDuplicate"] == []
        assert admission.dropped == ()
        again = decode(Stall, encode_tree(tree))
        assert (again.spec, again.status) == (plain.spec, plain.status)


class JobSpec(Spec):
    template: PodTemplateSpec


class Job(Resource[JobSpec, None], api="trade.example.dev/v1"):
    """Runs a pod."""


JOBS = crd_of(Job)


@virtual
async def test_a_kind_that_has_pods_in_it_is_served_with_all_their_fields():
    container = {"name": "main", "image": "x", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": 1}}}
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container], "nodeSelector": {"disk": "fast"}}}
    tree = {"apiVersion": "trade.example.dev/v1", "kind": "Job", "metadata": {"name": "x", "namespace": "default"}}
    async with open_client(crd=False) as client:
        await client.create(JOBS)
        made = await client.using(validation="Strict").create({**tree, "spec": {"template": pod}})
        (kept,) = made.tree["spec"]["template"]["spec"]["containers"]
        assert kept["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
        found = await client.get(Job, "x", namespace="default")
        assert found.spec.template.spec.node_selector == {"disk": "fast"}


def test_the_kinds_that_come_with_the_house_have_structural_schemas():
    assert [check_structural(schema_of(kind), kind.__name__) for kind in (CronJob, Pod, Service)] == [[], [], []]
