"""The files of new webhooks: functions that default and validate a kind, and their tests."""

from typing import Final

__all__ = ["MODULE", "TEST"]

MODULE: Final = '''\
"""Admission webhooks of ${kind}: raise Denied to reject an object, return a changed object to mutate it."""

from levelset import Denied
from levelset.runtime.webhook import Review, defaults, validates

from ${package}.${module} import ${kind}

LONGEST = 200


def set_defaults(wanted: ${kind}) -> ${kind}:
    """Sets default values."""
    return wanted if wanted.spec.message else wanted.with_spec(message="hello")


def check(wanted: ${kind}, review: Review[${kind}]) -> None:
    """Validates the object."""
    if len(wanted.spec.message) > LONGEST:
        raise Denied(f"spec.message: at most {LONGEST} characters, not {len(wanted.spec.message)}")
    if review.old is not None and review.old.spec.message != wanted.spec.message:
        review.warn("the message changes for all readers")


${module}_webhooks = [defaults(${kind}, set_defaults), validates(${kind}, check)]
'''

TEST: Final = '''\
"""Tests of the ${kind} webhooks."""

import pytest
from levelset.errors import Forbidden
from levelset.testing import Cluster

from ${package}.${module} import ${kind}, ${kind}Spec, ${plural}
from ${package}.${module}_webhooks import LONGEST, ${module}_webhooks


async def test_an_empty_message_gets_the_default(cluster: Cluster) -> None:
    async with cluster.running(${plural}, webhooks=${module}_webhooks):
        made = await cluster.create(${kind}.new("one", ${kind}Spec(message="")))
        assert made.spec.message == "hello"


async def test_a_message_that_is_too_long_is_denied(cluster: Cluster) -> None:
    async with cluster.running(${plural}, webhooks=${module}_webhooks):
        with pytest.raises(Forbidden, match="at most"):
            await cluster.create(${kind}.new("one", ${kind}Spec(message="x" * (LONGEST + 1))))
'''
