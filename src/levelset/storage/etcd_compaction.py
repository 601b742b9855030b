"""Periodic compaction of etcd: by one server of many at a time, up to where etcd was one period ago.

As kube-apiserver does it: a key of its own is swapped by the server that may compact. A server that loses the swap
waits for the next period. All servers see the key in their watch, and forget their history up to the same revision.
"""

import asyncio
import logging

from levelset.storage.etcd_client import EtcdClient
from levelset.storage.etcd_failures import CallFailed
from levelset.storage.etcd_messages import KeySpace

__all__ = ["Compactor"]

log = logging.getLogger(__name__)


class Compactor:
    """Compacts etcd every `period` seconds, until it is cancelled."""

    def __init__(self, client: EtcdClient, keys: KeySpace, *, period: float) -> None:
        self._client = client
        self._keys = keys
        self._period = period
        self._seen: int | None = None
        """The revision of the swapped key; None if it has to be read again."""
        self._target = 0
        """Where etcd was one period ago."""

    async def run(self) -> None:
        """Compacts for ever; a failure is logged, and the next period tries again."""
        while True:
            try:
                await self.step()
            except CallFailed as failure:
                self._seen = None
                log.warning("etcd was not compacted; it is tried again", extra={"reason": failure.reason})
            await asyncio.sleep(self._period)

    async def step(self) -> int:
        """One turn; returns the revision that was compacted, 0 if none was. Raises CallFailed."""
        client, key = self._client, self._keys.compaction
        if self._seen is None:
            found, self._target = await client.get(key)
            self._seen = 0 if found is None else found.revision
            return 0
        target = self._target
        outcome = await client.write(key, str(target).encode(), expected=self._seen)
        self._target = outcome.revision
        if not outcome.is_done:  # another server has compacted in this period
            self._seen = 0 if outcome.found is None else outcome.found.revision
            return 0
        self._seen = outcome.revision
        await client.compact(target)
        return target
