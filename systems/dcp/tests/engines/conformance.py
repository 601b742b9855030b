"""The conformance checks of engines: they run on the in-memory engine, on fake tools and on real engines."""

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
from systems.dcp.tests.engines.bench import FAILS, IDLE, MISSING, SLOW, STUBBORN, TALKS, Bench, Lines

__all__ = ["CHECKS", "NETWORK_CHECKS", "Check", "archive_of"]

Check = Callable[[Bench], Awaitable[None]]


async def the_engine_is_healthy_and_reports_its_version(bench: Bench) -> None:
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


async def start_and_stop_are_idempotent(bench: Bench) -> None:
    made = await bench.started("twice")
    await bench.engine.start_container(made)
    assert (await bench.reach(made, "running")).exit_code is None
    await bench.engine.stop_container(made, grace=5)
    await bench.engine.stop_container(made, grace=5)
    assert (await bench.reach(made, "exited")).exit_code == 143


async def a_program_that_ignores_sigterm_is_killed_after_the_grace_period(bench: Bench) -> None:
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


async def a_taken_name_raises_already_exists(bench: Bench) -> None:
    await bench.engine.create_container(bench.spec("one"))
    with pytest.raises(EngineAlreadyExists, match=bench.name("one")):
        await bench.engine.create_container(bench.spec("one"))


async def every_call_on_a_missing_object_raises_not_found(bench: Bench) -> None:
    engine, name = bench.engine, bench.name("missing")
    for call in (
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
            await call
    with pytest.raises(EngineNotFound):
        _ = [chunk async for chunk in engine.logs(name)]


async def a_running_container_is_removed_only_with_force(bench: Bench) -> None:
    made = await bench.started("running")
    with pytest.raises(ObjectInUse):
        await bench.engine.remove_container(made)
    await bench.engine.remove_container(made, force=True)
    with pytest.raises(EngineNotFound):
        await bench.engine.inspect_container(made)


async def a_missing_image_with_pull_policy_never_is_not_found(bench: Bench) -> None:
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
    assert await bench.engine.list_containers(labels={"levelset.test": "missing"}) == ()


async def inspect_returns_the_settings_of_a_container(bench: Bench) -> None:
    spec = bench.spec("given", env={"GREETING": "a=b c", "EMPTY": ""}, labels={"role": "web server"})
    info = await bench.engine.inspect_container(await bench.engine.create_container(spec))
    assert info.env["GREETING"] == "a=b c"
    assert info.env["EMPTY"] == ""
    assert info.labels["role"] == "web server"
    assert info.command == IDLE
    assert bench.image in info.image


async def exec_returns_output_and_exit_code(bench: Bench) -> None:
    made = await bench.started("host")
    await bench.reach(made, "running")
    out, err = Lines(), Lines()
    assert await bench.engine.exec(made, NewExec(command=SLOW), out=out, err=err) == 7
    assert (out.data, err.data) == (b"inside\n", b"outside\n")
    code = await bench.engine.exec(made, NewExec(command=(MISSING,)), out=out, err=err)
    assert code == 127, (code, out.data, err.data)


async def exec_in_a_stopped_container_is_refused(bench: Bench) -> None:
    made = await bench.engine.create_container(bench.spec("asleep"))
    with pytest.raises(EngineRefused, match="run"):
        await bench.engine.exec(made, NewExec(command=SLOW), out=Lines(), err=Lines())


async def a_log_is_followed_to_its_end(bench: Bench) -> None:
    made = await bench.started("talks", TALKS)
    text = b"".join([chunk async for chunk in bench.engine.logs(made, follow=True)])
    assert sorted(text.split()) == [b"one", b"three", b"two"]
    await bench.reach(made, "exited")
    assert sorted(b"".join([chunk async for chunk in bench.engine.logs(made)]).split()) == [b"one", b"three", b"two"]


async def logs_can_be_filtered_by_origin_and_tail(bench: Bench) -> None:
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


async def a_volume_is_created_once_and_cannot_be_removed_while_used(bench: Bench) -> None:
    name = bench.name("data")
    assert (await bench.engine.create_volume(name, labels={"role": "db"})).name == name
    assert (await bench.engine.create_volume(name)).name == name
    assert (await bench.engine.inspect_volume(name)).labels == {"role": "db"}
    assert name in [one.name for one in await bench.engine.list_volumes()]
    assert [one.name for one in await bench.engine.list_volumes(labels={"role": "db"})] == [name]
    assert await bench.engine.list_volumes(labels={"role": "no-such-role"}) == ()
    mount = Mount(type="volume", source=name, target="/data")
    made = await bench.engine.create_container(bench.spec("user", mounts=(mount,)))
    assert mount in (await bench.engine.inspect_container(made)).mounts
    with pytest.raises(ObjectInUse):
        await bench.engine.remove_volume(name)
    await bench.engine.remove_container(made)
    await bench.engine.remove_volume(name)
    with pytest.raises(EngineNotFound):
        await bench.engine.inspect_volume(name)


async def container_events_are_delivered(bench: Bench) -> None:
    async with bench.recording_events() as recorder:
        made = await bench.started("watched", FAILS)
        await bench.reach(made, "exited")
        await bench.engine.remove_container(made)
        await bench.wait_for_events(recorder, lambda _: "destroy" in recorder.actions(made))
    actions = recorder.actions(made)
    assert [one for one in actions if one in ("create", "start", "die", "destroy")] == [
        "create",
        "start",
        "die",
        "destroy",
    ]
    died = next(one for one in recorder.events if one.id == made and one.action == "die")
    assert (died.kind, died.name, died.container, died.exit_code) == ("container", bench.name("watched"), made, 9)


async def a_network_is_created_inspected_and_removed(bench: Bench) -> None:
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


async def the_default_network_exists(bench: Bench) -> None:
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


async def network_events_name_the_container(bench: Bench) -> None:
    net = await bench.engine.create_network(NewNetwork(name=bench.name("net")))
    made = await bench.started("member", network=bench.engine.default_network)
    await bench.reach(made, "running")
    async with bench.recording_events() as recorder:
        await bench.engine.connect(net.name, made)
        await bench.engine.disconnect(net.name, made)

        def is_recorded(events: list[EngineEvent]) -> bool:
            mine = {one.action for one in events if one.kind == "network" and one.container == made}
            return {"connect", "disconnect"} <= mine

        await bench.wait_for_events(recorder, is_recorded)


async def a_port_is_allocated_at_start_unless_it_is_taken(bench: Bench) -> None:
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
    the_engine_is_healthy_and_reports_its_version,
    a_container_is_created_then_runs_then_has_exited,
    start_and_stop_are_idempotent,
    a_program_that_ignores_sigterm_is_killed_after_the_grace_period,
    a_container_may_be_started_again_after_it_has_exited,
    a_taken_name_raises_already_exists,
    every_call_on_a_missing_object_raises_not_found,
    a_running_container_is_removed_only_with_force,
    a_missing_image_with_pull_policy_never_is_not_found,
    containers_are_listed_by_their_labels,
    inspect_returns_the_settings_of_a_container,
    exec_returns_output_and_exit_code,
    exec_in_a_stopped_container_is_refused,
    a_log_is_followed_to_its_end,
    logs_can_be_filtered_by_origin_and_tail,
    files_are_copied_into_a_container_that_has_not_started,
    a_volume_is_created_once_and_cannot_be_removed_while_used,
    container_events_are_delivered,
)
"""Checks that need no network."""

NETWORK_CHECKS: tuple[Check, ...] = (
    a_network_is_created_inspected_and_removed,
    the_default_network_exists,
    a_container_is_connected_once_under_its_aliases,
    a_container_may_be_in_a_network_from_the_start,
    network_events_name_the_container,
    a_port_is_allocated_at_start_unless_it_is_taken,
)
"""Checks that create networks or publish ports."""
