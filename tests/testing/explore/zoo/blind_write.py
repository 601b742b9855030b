"""Reads a shared list from the cache, adds itself, and writes the whole list back without a resource version.

Modelled on kubernetes-sigs/kernel-module-management#1343 and knative/pkg#2828: a merge patch replaces a list as a
whole, so a patch based on a stale read removes entries of other writers. The fix updates the object that was read, so
that the server detects the conflict.
"""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, replace, watches
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import ConfigMap, Expected

__all__ = ["Peer", "broken", "expected", "fixed"]


class PeerStatus(Status):
    joined: bool = False


class Peer(Resource[Spec, PeerStatus], api="zoo.example.dev/v1"):
    """A peer that must be on the list of peers."""


async def join_blindly(peer: Peer, ctx: Context) -> None:
    if has_joined(peer):
        return
    ref = Ref(ConfigMap, "peers", peer.namespace)
    found = await ctx.get(ref)
    await ctx.patch(ref, MergePatch({"data": {"names": with_name(found, peer.name)}}))
    await ctx.set_status(peer, PeerStatus(joined=True))


async def join(peer: Peer, ctx: Context) -> None:
    if has_joined(peer):
        return
    found = await ctx.get(Ref(ConfigMap, "peers", peer.namespace))
    await ctx.update(replace(found, data={"names": with_name(found, peer.name)}))
    await ctx.set_status(peer, PeerStatus(joined=True))


def with_name(peers: ConfigMap, name: str) -> str:
    return " ".join(sorted({*peers.data["names"].split(), name}))


def has_joined(peer: Peer) -> bool:
    return peer.status is not None and peer.status.joined


def joined_peers_are_on_the_list(state: State) -> None:
    names = {name for one in state.list(ConfigMap) for name in one.data.get("names", "").split()}
    missing = {one.name for one in state.list(Peer) if has_joined(one)} - names
    assert not missing, f"no longer on the list: {', '.join(sorted(missing))}"


async def scenario(user: Cluster) -> None:
    await user.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "peers"}, "data": {"names": ""}})
    for name in ("red", "green"):
        await user.create(Peer.new(name, Spec()))
        await user.settled()


watched = watches(ConfigMap, to=lambda one: [])
rules = [joined_peers_are_on_the_list]
broken = Exploration(scenario, lambda: [Controller(Peer, join_blindly, watched)], invariants=rules)
fixed = Exploration(scenario, lambda: [Controller(Peer, join, watched)], invariants=rules)
expected = Expected("joined_peers_are_on_the_list", "patch", "ConfigMap")
