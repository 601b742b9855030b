"""Reads a shared list from the cache, adds itself, and writes the whole list back without saying what it had read.

Modelled on kubernetes-sigs/kernel-module-management#1343 and knative/pkg#2828: a merge patch sends a list as a whole,
and one that is made from an old read takes off what somebody else has put on. An update of what was read carries its
version; the server refuses it, and the next look reads anew.
"""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, replace, watches
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.habitat import ConfigMap, Expected

__all__ = ["Peer", "broken", "expected", "fixed"]


class PeerStatus(Status):
    joined: bool = False


class Peer(Resource[Spec, PeerStatus], api="zoo.example.dev/v1"):
    """Wants to be on the list of peers, and stays there."""


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


def who_has_joined_is_on_the_list(state: State) -> None:
    names = {name for one in state.list(ConfigMap) for name in one.data.get("names", "").split()}
    missing = {one.name for one in state.list(Peer) if has_joined(one)} - names
    assert not missing, f"no longer on the list: {', '.join(sorted(missing))}"


async def scenario(people: Cluster) -> None:
    await people.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "peers"}, "data": {"names": ""}})
    for name in ("red", "green"):
        await people.create(Peer.new(name, Spec()))
        await people.settled()


followed = watches(ConfigMap, to=lambda one: [])
rules = [who_has_joined_is_on_the_list]
broken = Exploration(scenario, lambda: [Controller(Peer, join_blindly, followed)], invariants=rules)
fixed = Exploration(scenario, lambda: [Controller(Peer, join, followed)], invariants=rules)
expected = Expected("who_has_joined_is_on_the_list", "patch", "ConfigMap")
