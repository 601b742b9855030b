"""A schema and its class agree: objects of the class pass the schema and survive a round trip."""

import enum
from datetime import datetime
from typing import Annotated, Any

from levelset.apiserver.schema import check_structural, compile_schema
from levelset.client.internals import with_settings
from levelset.codegen.crd import crd_of
from levelset.codegen.schema import schema_of
from levelset.kinds.batch_v1 import CronJob
from levelset.kinds.core_v1 import Pod, PodTemplateSpec, Service
from levelset.objects import Condition, Meta, Model, Quantity, Resource, Spec, Status, decode, encode_tree, to_tree
from levelset.runtime.webhook import make_samples
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import open_client


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


def test_objects_of_a_class_pass_its_schema_and_round_trip():
    compiled = compile_schema(schema_of(Stall))
    for one in make_samples(Stall, count=200):
        plain = Stall(metadata=one.metadata, spec=one.spec, status=one.status)
        tree = to_tree(plain)
        admission = compiled.admit(tree)
        # A class accepts two conditions of one type, a server does not.
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
async def test_a_kind_with_a_pod_template_is_served_with_all_fields():
    container = {"name": "main", "image": "x", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": 1}}}
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container], "nodeSelector": {"disk": "fast"}}}
    tree = {"apiVersion": "trade.example.dev/v1", "kind": "Job", "metadata": {"name": "x", "namespace": "default"}}
    async with open_client(crd=False) as client:
        await client.create(JOBS)
        made = await with_settings(client, validation="Strict").create({**tree, "spec": {"template": pod}})
        (stored,) = made.tree["spec"]["template"]["spec"]["containers"]
        assert stored["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
        found = await client.get(Job, "x", namespace="default")
        assert found.spec.template.spec.node_selector == {"disk": "fast"}


def test_builtin_kinds_have_structural_schemas():
    assert [check_structural(schema_of(kind), kind.__name__) for kind in (CronJob, Pod, Service)] == [[], [], []]
