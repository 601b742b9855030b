"""The Lease of coordination.k8s.io: the object that an election is about."""

from datetime import UTC, datetime

from levelset.manager.election import Record
from levelset.objects.meta import ObjectMeta
from levelset.objects.model import Spec, replace
from levelset.objects.resource import Resource
from levelset.objects.times import MicroTime, format_time

__all__ = ["Lease", "LeaseSpec", "new_lease", "read_record", "stamp", "stamp_now", "with_record"]


class LeaseSpec(Spec):
    """Who holds the lease, until when, and since when; times are texts with six digits after the second."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Resource[LeaseSpec, None], api="coordination.k8s.io/v1"):
    """A claim of one process to a name, which expires unless it is renewed."""

    spec: LeaseSpec = LeaseSpec()


def read_record(lease: Lease) -> Record:
    """What a Lease says."""
    spec = lease.spec
    return Record(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 0,
        spec.acquire_time or "",
        spec.renew_time or "",
        spec.lease_transitions or 0,
    )


def with_record(lease: Lease, record: Record) -> Lease:
    """The Lease as it says this; what else is in it stays."""
    spec = replace(
        lease.spec,
        holder_identity=record.holder,
        lease_duration_seconds=record.duration,
        acquire_time=record.acquired,
        renew_time=record.renewed,
        lease_transitions=record.transitions,
    )
    return replace(lease, spec=spec)


def new_lease(name: str, namespace: str, labels: dict[str, str]) -> Lease:
    """A Lease that no server has seen yet."""
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels))


def stamp(now: datetime) -> str:
    """A time of day as a Lease writes it; for people, never compared."""
    return format_time(MicroTime.of(now))


def stamp_now() -> str:
    """The time of this moment as a Lease writes it."""
    return stamp(datetime.now(UTC))
