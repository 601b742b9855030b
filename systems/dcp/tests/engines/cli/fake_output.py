"""The JSON and the error messages that Docker 28 and Podman 4.3 print, for the fake tool."""

from __future__ import annotations

import time

__all__ = [
    "DEFAULT",
    "as_json",
    "container_event",
    "containers",
    "error_message",
    "images",
    "network_event",
    "networks",
    "now",
    "volumes",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULT = {"docker": "bridge", "podman": "podman"}
NEVER = "0001-01-01T00:00:00Z"
ERROR_MESSAGES = {
    ("docker", "down"): "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
    "Is the docker daemon running?",
    ("docker", "containers"): "Error response from daemon: No such container: {}",
    ("docker", "networks"): "Error response from daemon: network {} not found",
    ("docker", "volumes"): "Error response from daemon: get {}: no such volume",
    ("docker", "images"): "Error response from daemon: No such image: {}",
    ("docker", "no image"): "Error response from daemon: No such image: {}",
    (
        "docker",
        "taken",
    ): 'Error response from daemon: Conflict. The container name "/{}" is already in use by container '
    '"0123". You have to remove (or rename) that container to be able to reuse that name.',
    ("docker", "running"): 'Error response from daemon: cannot remove container "/{}": container is running: '
    "stop the container before removing or force remove",
    ("docker", "not running"): "Error response from daemon: container {} is not running",
    ("docker", "network taken"): "Error response from daemon: network with name {} already exists",
    ("docker", "network used"): "Error response from daemon: error while removing network: network {} has active "
    "endpoints",
    ("docker", "connected"): "Error response from daemon: endpoint with name {} already exists in network n",
    ("docker", "not connected"): "Error response from daemon: container {} is not connected to network n",
    ("docker", "volume used"): "Error response from daemon: remove {}: volume is in use - [0123]",
    ("docker", "port"): "Error response from daemon: driver failed programming external connectivity on endpoint x: "
    "Bind for 127.0.0.1:{} failed: port is already allocated",
    ("podman", "down"): "Cannot connect to Podman. Please verify your connection to the Linux system using "
    "`podman system connection list`, or try `podman machine init`",
    ("podman", "containers"): 'Error: no container with name or ID "{}" found: no such container',
    ("podman", "networks"): "Error: unable to find network with name or ID {}: network not found",
    ("podman", "volumes"): 'Error: no volume with name "{}" found: no such volume',
    ("podman", "images"): "Error: inspecting object: {}: image not known",
    ("podman", "no image"): "Error: {}: image not known",
    (
        "podman",
        "taken",
    ): 'Error: creating container storage: the container name "{}" is already in use by 0123. You have '
    "to remove that container to be able to reuse that name: that name is already in use",
    (
        "podman",
        "running",
    ): "Error: cannot remove container {} as it is running - running or paused containers cannot be "
    "removed without force: container state improper",
    ("podman", "not running"): "Error: can only create exec sessions on running containers: container state improper",
    ("podman", "network taken"): "Error: network name {} already used: network already exists",
    (
        "podman",
        "network used",
    ): 'Error: "{}" has associated containers with it. Use -f to forcibly delete containers and '
    "pods: network is being used",
    ("podman", "connected"): 'Error: container {} is already connected to network "n": network is already connected',
    ("podman", "not connected"): "Error: container {} is not connected to network n",
    (
        "podman",
        "volume used",
    ): "Error: volume {} is being used by the following container(s): 0123: volume is being used",
    (
        "podman",
        "port",
    ): 'Error: unable to start container "x": cannot listen on the TCP port: listen tcp4 127.0.0.1:{}: '
    "bind: address already in use",
}


def error_message(dialect: str, what: str, name: str) -> str:
    return ERROR_MESSAGES[dialect, what].format(name)


def now() -> str:
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest // 1000:06d}Z"


def as_json(value: Any) -> str:
    """Encodes JSON without the json module, which takes longer to import than all the rest."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_json(key)}: {as_json(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(as_json(one) for one in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return {None: "null", True: "true", False: "false"}.get(value) or str(value)


def containers(dialect: str, one: Any) -> dict[str, Any]:
    docker = dialect == "docker"
    config = {
        "Image": one["image"],
        "Env": [f"{k}={v}" for k, v in one["env"].items()],
        "Labels": one["labels"] or None,
    }
    state = {
        "Status": one["status"],
        "ExitCode": one.get("code", 0),
        "StartedAt": one.get("started", NEVER),
        "FinishedAt": one.get("finished", NEVER),
        "Error": "",
    }
    return {
        "Id": one["id"],
        "Name": ("/" if docker else "") + one["name"],
        "Created": one["created"],
        "Path": one["args"][0],
        "Args": one["args"][1:],
        "State": state if docker else {**state, "Health": {"Status": "", "FailingStreak": 0, "Log": None}},
        "Config": config,
        **({"Image": "sha256:0123"} if docker else {"Image": "0123", "ImageName": one["image"]}),
        "Mounts": [_mount(mount) for mount in one["mounts"]],
        "NetworkSettings": {
            "Ports": one.get("ports", {}),
            "Networks": {name: _attachment(dialect, name, there) for name, there in one["networks"].items()},
        },
    }


def networks(dialect: str, one: Any) -> dict[str, Any]:
    ranges = [("subnet", f"172.{one['number']}.0.0/16"), ("gateway", f"172.{one['number']}.0.1")]
    if dialect == "podman":
        return {
            "name": one["name"],
            "id": one["id"],
            "driver": "bridge",
            "created": one["created"],
            "subnets": [dict(ranges)],
            "ipv6_enabled": one["ipv6"],
            **({"labels": one["labels"]} if one["labels"] else {}),
        }
    return {
        "Name": one["name"],
        "Id": one["id"],
        "Driver": "bridge",
        "Created": one["created"],
        "EnableIPv6": one["ipv6"],
        "IPAM": {"Config": [{key.title(): value for key, value in ranges}]},
        "Containers": {},
        "Labels": one["labels"],
    }


def volumes(dialect: str, one: Any) -> dict[str, Any]:
    return {"Name": one["name"], "Driver": "local", "Labels": one["labels"], "Mountpoint": f"/v/{one['name']}"}


def images(dialect: str, one: Any) -> dict[str, Any]:
    key = f"sha256:{one['id']}" if dialect == "docker" else one["id"]
    return {"Id": key, "RepoTags": [one["name"]], "Config": {"Labels": one["labels"]}, "Created": NEVER}


def container_event(dialect: str, one: Any, action: str, code: int = 0) -> dict[str, Any]:
    if dialect == "podman":
        status = {"die": "died", "destroy": "remove"}.get(action, action)
        more = {"ContainerExitCode": code} if code else {}
        event = {"ID": one["id"], "Image": one["image"], "Name": one["name"], "Status": status, "Type": "container"}
        return {**more, **event, "Time": now(), "Attributes": one["labels"]}
    attributes = {"image": one["image"], "name": one["name"], **({"exitCode": str(code)} if action == "die" else {})}
    return {
        "status": action,
        "Type": "container",
        "Action": action,
        "Actor": {"ID": one["id"], "Attributes": attributes},
        "timeNano": time.time_ns(),
    }


def network_event(dialect: str, network: Any, one: Any, action: str) -> dict[str, Any]:
    if dialect == "podman":
        return {
            "ID": one["id"],
            "Name": one["name"],
            "network": network["name"],
            "Status": action,
            "Time": now(),
            "Type": "network",
            "Attributes": None,
        }
    attributes = {"container": one["id"], "name": network["name"], "type": "bridge"}
    actor = {"ID": network["id"], "Attributes": attributes}
    return {"Type": "network", "Action": action, "Actor": actor, "timeNano": time.time_ns()}


def _mount(mount: Any) -> dict[str, Any]:
    named = {"Name": mount["source"], "Source": f"/v/{mount['source']}"}
    place = named if mount["type"] == "volume" else {"Source": mount["source"]}
    return {"Type": mount["type"], **place, "Destination": mount["target"], "RW": "ro" not in mount}


def _attachment(dialect: str, name: str, there: Any) -> dict[str, Any]:
    key = there["id"] if dialect == "docker" else name
    return {"NetworkID": key, "Aliases": there["aliases"], "IPAddress": "172.17.0.2", "Gateway": "172.17.0.1"}
