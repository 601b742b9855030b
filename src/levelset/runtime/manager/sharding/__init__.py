"""Managers that share the work: replicas divide the objects of their controllers among them, through Leases."""

from levelset.runtime.manager.sharding.hand_over import HandOver, ShardedController
from levelset.runtime.manager.sharding.member import MemberReport, Sharding, ShardMember
from levelset.runtime.manager.sharding.membership import LeaseTimes, MemberRecord, Membership
from levelset.runtime.manager.sharding.rendezvous import View

__all__ = [
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
