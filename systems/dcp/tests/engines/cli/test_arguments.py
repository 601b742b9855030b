"""The command lines of engine calls."""

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
from levelset_dcp.engines.cli import arguments


def test_create_with_only_an_image() -> None:
    made = arguments.create_container(NewContainer(image="redis:7"))
    assert (made.args, made.env) == (("create", "redis:7"), {})


def test_create_with_all_options() -> None:
    made = arguments.create_container(
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
    assert " ".join(made.args) == (
        "create --name cache --pull missing --restart always --entrypoint redis-server --env A --label role=db "
        "--mount type=volume,source=data,target=/data,ro --publish 127.0.0.1:8080:80/tcp --network n1 "
        "--network-alias db --tty --interactive --cpus 1 redis:7 --port 80"
    )
    assert made.env == {"A": "1"}


@pytest.mark.parametrize("name", ["PATH", "HOME", "DOCKER_HOST", "http_proxy", "LD_PRELOAD", "GODEBUG", "BUILDKIT_X"])
def test_a_variable_that_the_tool_reads_is_passed_with_its_value(name: str) -> None:
    made = arguments.execute("web", NewExec(command=("env",), env={name: "x"}))
    assert (made.args, made.env) == (("exec", "--env", f"{name}=x", "web", "env"), {})


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
def test_the_value_of_publish(port: PortBinding, text: str) -> None:
    assert arguments.publish(port) == text


def test_a_comma_in_a_mount_path_is_quoted() -> None:
    made = arguments.create_container(NewContainer(image="x", mounts=(Mount(source='/a,"b"', target="/c"),)))
    assert made.args[2] == 'type=bind,"source=/a,""b""",target=/c'


def test_exec_with_all_options() -> None:
    made = arguments.execute("web", NewExec(command=("sh", "-c", "x"), env={"A": "1"}, working_directory="/srv"))
    assert made.args == ("exec", "--env", "A", "--workdir", "/srv", "web", "sh", "-c", "x")


def test_logs_with_all_options() -> None:
    assert arguments.logs("web", follow=False, timestamps=False, tail=None).args == ("logs", "web")
    made = arguments.logs("web", follow=True, timestamps=True, tail=0)
    assert made.args == ("logs", "--follow", "--timestamps", "--tail", "0", "web")


def test_build_with_all_options() -> None:
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
    made = arguments.build_image(what, extra=("--progress", "plain"))
    assert " ".join(made.args) == (
        "build --progress plain --file /src/Dockerfile.web --tag web:1 --tag web:2 --build-arg V "
        "--build-arg HTTP_PROXY=p --secret id=file,src=/key --secret id=mine,type=env,env=LEVELSET_BUILD_SECRET_1 "
        "--secret id=theirs,type=env,env=TOKEN --target final --label a=b --platform linux/arm64 --pull /src"
    )
    assert made.env == {"V": "1", "LEVELSET_BUILD_SECRET_1": "hush"}


def test_network_and_volume_commands() -> None:
    assert arguments.create_network(NewNetwork(name="n", ipv6=True, labels={"a": "b"})).args == (
        "network",
        "create",
        "--ipv6",
        "--label",
        "a=b",
        "n",
    )
    assert arguments.connect("n", "web", ("a", "b")).args == (
        "network",
        "connect",
        "--alias",
        "a",
        "--alias",
        "b",
        "n",
        "web",
    )
    assert arguments.disconnect("n", "web", force=True).args == ("network", "disconnect", "--force", "n", "web")
    assert arguments.create_volume("data", {"a": "b"}).args == ("volume", "create", "--label", "a=b", "data")
    assert arguments.copy_in("web", "/etc").args == ("cp", "--archive=false", "-", "web:/etc")
    assert arguments.filters({"a": "b", "c": ""}) == ("--filter", "label=a=b", "--filter", "label=c=")


@pytest.mark.parametrize("name", ["", "-f", "--all"])
def test_a_name_that_looks_like_an_option_is_rejected(name: str) -> None:
    with pytest.raises(EngineNotFound, match="dash"):
        arguments.inspect("container", [name])
    with pytest.raises(EngineNotFound, match="dash"):
        arguments.create_container(NewContainer(image=name))
