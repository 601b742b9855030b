"""The `scale` of an object: how many replicas are wanted and how many there are, whatever its kind."""

from levelset.objects.model import Spec, Status
from levelset.objects.resource import Resource

__all__ = ["ObjectScale", "ScaleSpec", "ScaleStatus"]


class ScaleSpec(Spec):
    """What is wanted."""

    replicas: int = 0


class ScaleStatus(Status):
    """What there is, and how to find it."""

    replicas: int = 0
    selector: str = ""


class ObjectScale(Resource[ScaleSpec, ScaleStatus], api="autoscaling/v1", kind="Scale"):
    """The scale of some object, with that object's name and version."""

    spec: ScaleSpec = ScaleSpec()
