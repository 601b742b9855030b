"""What is asked of an engine becomes the right words for its tool."""

import pytest

from levelset_dcp.engines import (
    EngineNotFound,
    ImageBuild,
    ImageBuildSecret,
    Mount,
    NewContainer,
    NewExec,
    NewNetwork,
    PortBinding,
)
from levelset_dcp.engines import arguments as say


def test_a_container_with_nothing_but_an_image() -> None:
    made = say.create_container(NewContainer(image="redis:7"))
    assert (made.words, made.env) == (("create", "redis:7"), {})


def test_a_container_with_everything() -> None:
    made = say.create_container(
        NewContainer(
            image="redis:7",
            name="cache",
            command="redis-server",
            args=("--port", "80"),
            env={"A": "1"},
            labels={"role": "db"},
            mounts=(Mount(type="volume", source="data", target="/data", read_only=True),),
            ports=(PortBinding(container_port=80, host_port=8080),),
            network="n1",
            aliases=("db",),
            restart_policy="always",
            pull_policy="missing",
            tty=True,
            run_args=("--cpus", "1"),
        )
    )
    assert " ".join(made.words) == (
        "create --name cache --pull missing --restart always --entrypoint redis-server --env A --label role=db "
        "--mount type=volume,source=data,target=/data,ro --publish 127.0.0.1:8080:80/tcp --network n1 "
        "--network-alias db --tty --interactive --cpus 1 redis:7 --port 80"
    )
    assert made.env == {"A": "1"}


@pytest.mark.parametrize("name", ["PATH", "HOME", "DOCKER_HOST", "http_proxy", "LD_PRELOAD", "GODEBUG", "BUILDKIT_X"])
def test_a_variable_that_the_tool_itself_reads_is_given_with_its_value(name: str) -> None:
    made = say.execute("web", NewExec(command=("env",), env={name: "x"}))
    assert (made.words, made.env) == (("exec", "--env", f"{name}=x", "web", "env"), {})


@pytest.mark.parametrize(
    ("port", "text"),
    [
        (PortBinding(container_port=80), "127.0.0.1::80/tcp"),
        (PortBinding(container_port=53, host_port=5353, protocol="udp"), "127.0.0.1:5353:53/udp"),
        (PortBinding(container_port=80, host_ip=""), "80/tcp"),
        (PortBinding(container_port=80, host_port=8080, host_ip=""), "8080:80/tcp"),
        (PortBinding(container_port=80, host_port=8080, host_ip="::1"), "[::1]:8080:80/tcp"),
        (PortBinding(container_port=80, host_ip="::1"), "[::1]::80/tcp"),
    ],
)
def test_a_port_is_published_where_it_is_wanted(port: PortBinding, text: str) -> None:
    assert say.publish(port) == text


def test_a_comma_in_a_path_does_not_end_it() -> None:
    made = say.create_container(NewContainer(image="x", mounts=(Mount(source='/a,"b"', target="/c"),)))
    assert made.words[2] == 'type=bind,"source=/a,""b""",target=/c'


def test_a_command_inside() -> None:
    made = say.execute("web", NewExec(command=("sh", "-c", "x"), env={"A": "1"}, working_directory="/srv"))
    assert made.words == ("exec", "--env", "A", "--workdir", "/srv", "web", "sh", "-c", "x")


def test_a_part_of_a_log() -> None:
    assert say.logs("web", follow=False, timestamps=False, tail=None).words == ("logs", "web")
    made = say.logs("web", follow=True, timestamps=True, tail=0)
    assert made.words == ("logs", "--follow", "--timestamps", "--tail", "0", "web")


def test_a_build_with_everything() -> None:
    what = ImageBuild(
        context="/src",
        dockerfile="/src/Dockerfile.web",
        tags=("web:1", "web:2"),
        args={"V": "1", "HTTP_PROXY": "p"},
        secrets=(
            ImageBuildSecret(id="file", source="/key"),
            ImageBuildSecret(id="mine", type="env", value="hush"),
            ImageBuildSecret(id="theirs", type="env", source="TOKEN"),
        ),
        stage="final",
        labels={"a": "b"},
        platform="linux/arm64",
        pull=True,
    )
    made = say.build_image(what, extra=("--progress", "plain"))
    assert " ".join(made.words) == (
        "build --progress plain --file /src/Dockerfile.web --tag web:1 --tag web:2 --build-arg V "
        "--build-arg HTTP_PROXY=p --secret id=file,src=/key --secret id=mine,type=env,env=LEVELSET_BUILD_SECRET_1 "
        "--secret id=theirs,type=env,env=TOKEN --target final --label a=b --platform linux/arm64 --pull /src"
    )
    assert made.env == {"V": "1", "LEVELSET_BUILD_SECRET_1": "hush"}


def test_networks_and_volumes() -> None:
    assert say.create_network(NewNetwork(name="n", ipv6=True, labels={"a": "b"})).words == (
        "network",
        "create",
        "--ipv6",
        "--label",
        "a=b",
        "n",
    )
    assert say.connect("n", "web", ("a", "b")).words == (
        "network",
        "connect",
        "--alias",
        "a",
        "--alias",
        "b",
        "n",
        "web",
    )
    assert say.disconnect("n", "web", force=True).words == ("network", "disconnect", "--force", "n", "web")
    assert say.create_volume("data", {"a": "b"}).words == ("volume", "create", "--label", "a=b", "data")
    assert say.copy_in("web", "/etc").words == ("cp", "--archive=false", "-", "web:/etc")
    assert say.filters({"a": "b", "c": ""}) == ("--filter", "label=a=b", "--filter", "label=c=")


@pytest.mark.parametrize("name", ["", "-f", "--all"])
def test_nothing_is_called_like_an_option(name: str) -> None:
    with pytest.raises(EngineNotFound, match="dash"):
        say.inspect("container", [name])
    with pytest.raises(EngineNotFound, match="dash"):
        say.create_container(NewContainer(image=name))
