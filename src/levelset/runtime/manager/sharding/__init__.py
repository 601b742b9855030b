"""Managers that share the work: replicas divide the objects of their controllers among them, through Leases."""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.runtime.manager.sharding.hand_over import HandOver, ShardedController
    from levelset.runtime.manager.sharding.member import (
        KEYS_ANNOTATION,
        SHARDS_LABEL,
        MemberReport,
        Sharding,
        ShardMember,
    )
    from levelset.runtime.manager.sharding.membership import LeaseTimes, MemberRecord, Membership
    from levelset.runtime.manager.sharding.rendezvous import View

__all__ = [
    "KEYS_ANNOTATION",
    "SHARDS_LABEL",
    "HandOver",
    "LeaseTimes",
    "MemberRecord",
    "MemberReport",
    "Membership",
    "ShardMember",
    "ShardedController",
    "Sharding",
    "View",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.runtime.manager.sharding.hand_over": "HandOver ShardedController",
        "levelset.runtime.manager.sharding.member": "KEYS_ANNOTATION SHARDS_LABEL MemberReport Sharding ShardMember",
        "levelset.runtime.manager.sharding.membership": "LeaseTimes MemberRecord Membership",
        "levelset.runtime.manager.sharding.rendezvous": "View",
    },
)
