"""What a new webhook begins with: functions that fill in and check a kind, and their test."""

from typing import Final

__all__ = ["MODULE", "TEST"]

MODULE: Final = '''\
"""What a ${kind} must be before it is stored: to refuse is to raise, to change is to return the changed object."""

from levelset import Denied
from levelset.runtime.webhook import Review, defaults, validates

from ${package}.${module} import ${kind}

LONGEST = 200


def fill_in(wanted: ${kind}) -> ${kind}:
    """Fills in what somebody has left out."""
    return wanted if wanted.spec.message else wanted.with_spec(message="hello")


def check(wanted: ${kind}, review: Review[${kind}]) -> None:
    """Refuses what cannot be meant."""
    if len(wanted.spec.message) > LONGEST:
        raise Denied(f"spec.message: at most {LONGEST} characters, not {len(wanted.spec.message)}")
    if review.old is not None and review.old.spec.message != wanted.spec.message:
        review.warn("the message changes for everybody who reads it")


${module}_webhooks = [defaults(${kind}, fill_in), validates(${kind}, check)]
'''

TEST: Final = '''\
"""What is filled in and refused before a ${kind} is stored."""

import pytest
from levelset import Forbidden
from levelset.testing import Cluster

from ${package}.${module} import ${kind}, ${kind}Spec, ${plural}
from ${package}.${module}_webhooks import LONGEST, ${module}_webhooks


async def test_an_empty_message_is_filled_in(cluster: Cluster) -> None:
    async with cluster.running(${plural}, webhooks=${module}_webhooks):
        made = await cluster.create(${kind}.new("one", ${kind}Spec(message="")))
        assert made.spec.message == "hello"


async def test_a_message_that_is_too_long_is_refused(cluster: Cluster) -> None:
    async with cluster.running(${plural}, webhooks=${module}_webhooks):
        with pytest.raises(Forbidden, match="at most"):
            await cluster.create(${kind}.new("one", ${kind}Spec(message="x" * (LONGEST + 1))))
'''
