"""What every engine is held to: each check is a sentence, and is run on the pretended engine and on real ones."""

import io
import tarfile
from collections.abc import Awaitable, Callable

import pytest

from levelset_dcp.engines import (
    ContainerInfo,
    CouldNotAllocate,
    EngineAlreadyExists,
    EngineEvent,
    EngineNotFound,
    EngineRefused,
    Mount,
    NewContainer,
    NewExec,
    NewNetwork,
    ObjectInUse,
    PortBinding,
)
from systems.dcp.tests.engine_bench import FAILS, IDLE, MISSING, SLOW, STUBBORN, TALKS, Bench, Lines

__all__ = ["CHECKS", "NETWORK_CHECKS", "Check", "archive_of"]

Check = Callable[[Bench], Awaitable[None]]


async def the_engine_is_healthy_and_says_which_version_it_is(bench: Bench) -> None:
    status = await bench.engine.check_status()
    assert status.is_healthy, status.message
    assert status.version
    assert (await bench.engine.check_status(cached=True)).is_healthy


async def a_container_is_created_then_runs_then_has_exited(bench: Bench) -> None:
    made = await bench.engine.create_container(bench.spec("life", FAILS))
    info = await bench.engine.inspect_container(made)
    assert (info.id, info.name, info.status, info.exit_code) == (made, bench.name("life"), "created", None)
    assert info.created_at is not None
    assert info.started_at is None
    await bench.engine.start_container(bench.name("life"))
    over = await bench.reach(made, "exited")
    assert over.exit_code == 9
    assert over.started_at is not None
    assert over.finished_at is not None
    assert over.finished_at >= over.started_at >= info.created_at


async def starting_what_runs_and_stopping_what_has_ended_is_fine(bench: Bench) -> None:
    made = await bench.started("twice")
    await bench.engine.start_container(made)
    assert (await bench.reach(made, "running")).exit_code is None
    await bench.engine.stop_container(made, grace=5)
    await bench.engine.stop_container(made, grace=5)
    assert (await bench.reach(made, "exited")).exit_code == 143


async def a_program_that_does_not_listen_is_killed_after_the_grace(bench: Bench) -> None:
    made = await bench.started("stubborn", STUBBORN)
    await bench.reach(made, "running")
    await bench.engine.stop_container(made, grace=1)
    assert (await bench.reach(made, "exited")).exit_code == 137


async def a_container_may_be_started_again_after_it_has_exited(bench: Bench) -> None:
    made = await bench.started("again", FAILS)
    first = await bench.reach(made, "exited")
    await bench.engine.start_container(made)

    assert first.started_at is not None
    begun = first.started_at

    def is_second(one: ContainerInfo) -> bool:
        return one.status == "exited" and one.started_at is not None and one.started_at > begun

    second = await bench.eventually(lambda: bench.engine.inspect_container(made), is_second)
    assert second.exit_code == 9
    assert second.finished_at is not None
    assert second.finished_at > begun


async def a_name_that_is_taken_is_told_so(bench: Bench) -> None:
    await bench.engine.create_container(bench.spec("one"))
    with pytest.raises(EngineAlreadyExists, match=bench.name("one")):
        await bench.engine.create_container(bench.spec("one"))


async def what_is_not_there_is_not_found_whatever_is_asked(bench: Bench) -> None:
    engine, name = bench.engine, bench.name("nobody")
    for asked in (
        engine.inspect_container(name),
        engine.start_container(name),
        engine.stop_container(name),
        engine.remove_container(name, force=True),
        engine.exec(name, NewExec(command=("true",)), out=Lines(), err=Lines()),
        engine.copy_in(name, "/", archive_of("hello", b"you")),
        engine.inspect_image(f"localhost/{MISSING}:1"),
        engine.inspect_network(name),
        engine.remove_network(name),
        engine.inspect_volume(name),
        engine.remove_volume(name),
    ):
        with pytest.raises(EngineNotFound, match="levelset"):
            await asked
    with pytest.raises(EngineNotFound):
        _ = [chunk async for chunk in engine.logs(name)]


async def what_runs_is_removed_with_force_alone(bench: Bench) -> None:
    made = await bench.started("running")
    with pytest.raises(ObjectInUse):
        await bench.engine.remove_container(made)
    await bench.engine.remove_container(made, force=True)
    with pytest.raises(EngineNotFound):
        await bench.engine.inspect_container(made)


async def an_image_that_is_not_there_and_may_not_be_pulled_is_not_found(bench: Bench) -> None:
    with pytest.raises(EngineNotFound, match=MISSING):
        await bench.engine.create_container(
            NewContainer(image=f"localhost/{MISSING}:1", name=bench.name("x"), pull_policy="never")
        )


async def containers_are_listed_by_their_labels(bench: Bench) -> None:
    mine = {"levelset.test": bench.prefix}
    one = await bench.engine.create_container(bench.spec("one", labels={**mine, "role": "web"}))
    two = await bench.started("two", labels={**mine, "role": "db"})
    assert {found.id for found in await bench.engine.list_containers(labels=mine)} == {one, two}
    only = await bench.engine.list_containers(labels={**mine, "role": "web"})
    assert [(found.id, found.name, found.status) for found in only] == [(one, bench.name("one"), "created")]
    assert await bench.engine.list_containers(labels={"levelset.test": "nobody"}) == ()


async def what_a_container_was_given_can_be_read_again(bench: Bench) -> None:
    spec = bench.spec("given", env={"GREETING": "a=b c", "EMPTY": ""}, labels={"role": "web server"})
    info = await bench.engine.inspect_container(await bench.engine.create_container(spec))
    assert info.env["GREETING"] == "a=b c"
    assert info.env["EMPTY"] == ""
    assert info.labels["role"] == "web server"
    assert info.command == IDLE
    assert bench.image in info.image


async def a_command_inside_has_its_output_and_its_exit_code(bench: Bench) -> None:
    made = await bench.started("host")
    await bench.reach(made, "running")
    out, err = Lines(), Lines()
    assert await bench.engine.exec(made, NewExec(command=SLOW), out=out, err=err) == 7
    assert (out.data, err.data) == (b"inside\n", b"outside\n")
    assert await bench.engine.exec(made, NewExec(command=(MISSING,)), out=out, err=err) == 127


async def nothing_can_be_run_inside_of_what_does_not_run(bench: Bench) -> None:
    made = await bench.engine.create_container(bench.spec("asleep"))
    with pytest.raises(EngineRefused, match="run"):
        await bench.engine.exec(made, NewExec(command=SLOW), out=Lines(), err=Lines())


async def a_log_is_followed_to_its_end(bench: Bench) -> None:
    made = await bench.started("talks", TALKS)
    text = b"".join([chunk async for chunk in bench.engine.logs(made, follow=True)])
    assert sorted(text.split()) == [b"one", b"three", b"two"]
    await bench.reach(made, "exited")
    assert sorted(b"".join([chunk async for chunk in bench.engine.logs(made)]).split()) == [b"one", b"three", b"two"]


async def a_part_of_a_log_may_be_asked_for(bench: Bench) -> None:
    made = await bench.started("talks", TALKS)
    await bench.reach(made, "exited")
    assert b"".join([chunk async for chunk in bench.engine.logs(made, origin="stderr")]) == b"two\n"
    assert b"".join([chunk async for chunk in bench.engine.logs(made, origin="stdout")]) == b"one\nthree\n"
    last = b"".join([chunk async for chunk in bench.engine.logs(made, tail=1, timestamps=True)])
    time, text = last.split()
    assert text == b"three"
    assert time[:2] == b"20"
    assert b"T" in time


async def files_are_copied_into_a_container_that_has_not_started(bench: Bench) -> None:
    made = await bench.engine.create_container(bench.spec("files"))
    await bench.engine.copy_in(made, "/tmp", archive_of("deep/hello.txt", b"you"))
    await bench.engine.start_container(made)
    await bench.reach(made, "running")
    assert await bench.read_file(made, "/tmp/deep/hello.txt") == b"you"


async def a_volume_is_made_once_and_kept_while_it_is_used(bench: Bench) -> None:
    name = bench.name("data")
    assert (await bench.engine.create_volume(name, labels={"role": "db"})).name == name
    assert (await bench.engine.create_volume(name)).name == name
    assert (await bench.engine.inspect_volume(name)).labels == {"role": "db"}
    mount = Mount(type="volume", source=name, target="/data")
    made = await bench.engine.create_container(bench.spec("user", mounts=(mount,)))
    assert mount in (await bench.engine.inspect_container(made)).mounts
    with pytest.raises(ObjectInUse):
        await bench.engine.remove_volume(name)
    await bench.engine.remove_container(made)
    await bench.engine.remove_volume(name)
    with pytest.raises(EngineNotFound):
        await bench.engine.inspect_volume(name)


async def what_happens_to_a_container_is_heard(bench: Bench) -> None:
    async with bench.hearing() as heard:
        made = await bench.started("heard", FAILS)
        await bench.reach(made, "exited")
        await bench.engine.remove_container(made)
        await bench.heard(heard, lambda _: "destroy" in heard.actions(made))
    actions = heard.actions(made)
    assert [one for one in actions if one in ("create", "start", "die", "destroy")] == [
        "create",
        "start",
        "die",
        "destroy",
    ]
    died = next(one for one in heard.events if one.id == made and one.action == "die")
    assert (died.kind, died.name, died.container, died.exit_code) == ("container", bench.name("heard"), made, 9)


async def a_network_is_made_found_and_removed(bench: Bench) -> None:
    name = bench.name("net")
    made = await bench.engine.create_network(NewNetwork(name=name, labels={"levelset.test": bench.prefix}))
    assert (made.name, made.driver, made.ipv6) == (name, "bridge", False)
    assert len(made.subnets) == len(made.gateways) == 1
    with pytest.raises(EngineAlreadyExists, match=name):
        await bench.engine.create_network(NewNetwork(name=name))
    found = await bench.engine.list_networks(labels={"levelset.test": bench.prefix})
    assert [one.id for one in found] == [made.id]
    assert (await bench.engine.inspect_network(made.id)).labels == {"levelset.test": bench.prefix}
    await bench.engine.remove_network(name)
    with pytest.raises(EngineNotFound):
        await bench.engine.inspect_network(made.id)


async def the_default_network_is_there(bench: Bench) -> None:
    assert (await bench.engine.inspect_network(bench.engine.default_network)).driver == "bridge"


async def a_container_is_connected_once_under_its_aliases(bench: Bench) -> None:
    net = await bench.engine.create_network(NewNetwork(name=bench.name("net")))
    made = await bench.started("member", network=bench.engine.default_network)
    await bench.reach(made, "running")
    await bench.engine.connect(net.id, made, aliases=("db", "store"))
    info = await bench.engine.inspect_container(made)
    there = next(one for one in info.networks if one.network == net.name)
    assert {"db", "store"} <= set(there.aliases)
    assert there.address
    assert (await bench.engine.inspect_network(net.id)).container_ids == (made,)
    with pytest.raises(EngineAlreadyExists):
        await bench.engine.connect(net.id, made)
    with pytest.raises(ObjectInUse):
        await bench.engine.remove_network(net.id)
    await bench.engine.disconnect(net.id, made)
    with pytest.raises(EngineNotFound):
        await bench.engine.disconnect(net.id, made)
    assert (await bench.engine.inspect_network(net.id)).container_ids == ()


async def a_container_may_be_in_a_network_from_the_start(bench: Bench) -> None:
    net = await bench.engine.create_network(NewNetwork(name=bench.name("net")))
    made = await bench.engine.create_container(bench.spec("born", network=net.name, aliases=("web",)))
    assert (await bench.engine.inspect_network(net.id)).container_ids == (made,)
    await bench.engine.start_container(made)
    info = await bench.reach(made, "running")
    assert [one.network for one in info.networks] == [net.name]
    assert "web" in info.networks[0].aliases


async def connecting_is_heard_with_the_container(bench: Bench) -> None:
    net = await bench.engine.create_network(NewNetwork(name=bench.name("net")))
    made = await bench.started("member", network=bench.engine.default_network)
    await bench.reach(made, "running")
    async with bench.hearing() as heard:
        await bench.engine.connect(net.name, made)
        await bench.engine.disconnect(net.name, made)

        def is_heard(events: list[EngineEvent]) -> bool:
            mine = {one.action for one in events if one.kind == "network" and one.container == made}
            return {"connect", "disconnect"} <= mine

        await bench.heard(heard, is_heard)


async def a_port_is_chosen_when_it_starts_unless_somebody_has_it(bench: Bench) -> None:
    ports = (PortBinding(container_port=80),)
    made = await bench.started("web", ports=ports, network=bench.engine.default_network)
    info = await bench.reach(made, "running")
    (binding,) = info.ports
    assert (binding.container_port, binding.protocol, binding.host_ip) == (80, "tcp", "127.0.0.1")
    assert binding.host_port > 0
    wanted = (PortBinding(container_port=81, host_port=binding.host_port),)
    other = await bench.engine.create_container(bench.spec("other", ports=wanted, network=bench.engine.default_network))
    with pytest.raises(CouldNotAllocate):
        await bench.engine.start_container(other)


def archive_of(path: str, content: bytes, *, owner: int = 0) -> bytes:
    """A tar archive with one file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        member = tarfile.TarInfo(path)
        member.size, member.uid = len(content), owner
        tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


CHECKS: tuple[Check, ...] = (
    the_engine_is_healthy_and_says_which_version_it_is,
    a_container_is_created_then_runs_then_has_exited,
    starting_what_runs_and_stopping_what_has_ended_is_fine,
    a_program_that_does_not_listen_is_killed_after_the_grace,
    a_container_may_be_started_again_after_it_has_exited,
    a_name_that_is_taken_is_told_so,
    what_is_not_there_is_not_found_whatever_is_asked,
    what_runs_is_removed_with_force_alone,
    an_image_that_is_not_there_and_may_not_be_pulled_is_not_found,
    containers_are_listed_by_their_labels,
    what_a_container_was_given_can_be_read_again,
    a_command_inside_has_its_output_and_its_exit_code,
    nothing_can_be_run_inside_of_what_does_not_run,
    a_log_is_followed_to_its_end,
    a_part_of_a_log_may_be_asked_for,
    files_are_copied_into_a_container_that_has_not_started,
    a_volume_is_made_once_and_kept_while_it_is_used,
    what_happens_to_a_container_is_heard,
)
"""Checks that need no network."""

NETWORK_CHECKS: tuple[Check, ...] = (
    a_network_is_made_found_and_removed,
    the_default_network_is_there,
    a_container_is_connected_once_under_its_aliases,
    a_container_may_be_in_a_network_from_the_start,
    connecting_is_heard_with_the_container,
    a_port_is_chosen_when_it_starts_unless_somebody_has_it,
)
"""Checks that make networks, and publish ports."""
