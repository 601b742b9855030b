"""Every field of upstream's API has its name and type here: the table is that of microsoft/dcp, revision d680c176."""

from collections.abc import Iterator
from typing import Any

import pytest

from levelset import Client, Object, Ref, open_local
from levelset.codegen.crd import crd_of
from levelset.objects import definition_of
from levelset_dcp import kinds
from systems.dcp.tests.test_admission import ALL, EXE, manifest, system

# A line is a type with its fields: `name type`. `[x]` is a list of x, `{}` a map of texts, a capital another type.
TABLE = """
EnvVar: name string, value string
Header: name string, value string
HttpProbe: url string, headers [Header]
ExecutableProbe: executableTemplate ProbeTemplate
ProbeTemplate: labels {}, annotations {}, spec ProbeProgram
Schedule: kind string, interval string, timeout string, initialDelay string
HealthProbe: name string, type string, executableProbe ExecutableProbe, httpProbe HttpProbe, schedule Schedule,
  annotations {}
ProbeResult: outcome string, timestamp time, probeName string, reason string
Terminal: udsPath string, socketMode string, cols integer, rows integer
Certificate: thumbprint string, contents string
Certificates: certificates [Certificate], continueOnError boolean
Ambient: behavior string

ProbeProgram: executablePath string, workingDirectory string, args [string], env [EnvVar], envFiles [string],
  executionType string, fallbackExecutionTypes [string], ambientEnvironment Ambient, start boolean, stop boolean,
  mode string, persistent boolean, lifecycleKey string, monitorPid integer, monitorTimestamp time,
  healthProbes [any], pemCertificates Certificates, terminal Terminal
Executable.spec: executablePath string, workingDirectory string, args [string], env [EnvVar], envFiles [string],
  executionType string, fallbackExecutionTypes [string], ambientEnvironment Ambient, start boolean, stop boolean,
  mode string, persistent boolean, lifecycleKey string, monitorPid integer, monitorTimestamp time,
  healthProbes [HealthProbe], pemCertificates Certificates, terminal Terminal
Executable.status: executionID string, pid integer, state string, startupTimestamp time, finishTimestamp time,
  exitCode integer, stdOutFile string, stdErrFile string, terminalSocketPath string, effectiveEnv [EnvVar],
  effectiveArgs [string], healthStatus string, healthProbeResults [ProbeResult]
Template: labels {}, annotations {}, spec Executable.spec
ExecutableReplicaSet.spec: replicas integer, stopOnScaleDown boolean, template Template
ExecutableReplicaSet.status: observedReplicas integer, runningReplicas integer, failedReplicas integer,
  finishedReplicas integer, lastScaleTime time, healthStatus string

Mount: type string, source string, target string, readOnly boolean
Port: hostPort integer, containerPort integer, protocol string, hostIP string
Secret: type string, id string, source string, value string
Label: key string, value string
Build: context string, dockerfile string, tags [string], args [EnvVar], secrets [Secret], stage string, labels [Label],
  platform string
Entry: type string, name string, owner integer, group integer, mode integer, source string, target string,
  contents string, rawContents string, continueOnError boolean, entries [any]
Files: destination string, defaultOwner integer, defaultGroup integer, umask integer, entries [Entry]
Layer: digest string, source string, sha256 string, rawContents string
ContainerCertificates: certificates [Certificate], destination string, overwriteBundlePaths [string],
  continueOnError boolean
Network: name string, aliases [string]
Container.spec: image string, build Build, containerName string, volumeMounts [Mount], ports [Port], env [EnvVar],
  envFiles [string], restartPolicy string, command string, args [string], start boolean, stop boolean,
  networks [Network], mode string, persistent boolean, monitorPid integer, monitorTimestamp time, runArgs [string],
  labels [Label], healthProbes [HealthProbe], lifecycleKey string, pullPolicy string, createFiles [Files],
  imageLayers [Layer], pemCertificates ContainerCertificates, terminal Terminal
Container.status: state string, containerId string, containerName string, startupTimestamp time, finishTimestamp time,
  startupStdOutFile string, startupStdErrFile string, terminalSocketPath string, exitCode integer, message string,
  effectiveEnv [EnvVar], effectiveArgs [string], networks [string], healthStatus string,
  healthProbeResults [ProbeResult], lifecycleKey string
ContainerExec.spec: containerName string, env [EnvVar], envFiles [string], workingDirectory string, command string,
  args [string]
ContainerExec.status: state string, startupTimestamp time, finishTimestamp time, exitCode integer, stdOutFile string,
  stdErrFile string, effectiveEnv [EnvVar], effectiveArgs [string]

ContainerNetwork.spec: networkName string, ipv6 boolean, mode string, persistent boolean
ContainerNetwork.status: state string, message string, id string, networkName string, driver string, ipv6 boolean,
  subnets [string], gateways [string], containerIds [string]
ContainerNetworkConnection.spec: containerNetworkName string, containerID string, aliases [string]
ContainerVolume.spec: name string, persistent boolean
ContainerVolume.status: state string
Tunnel: name string, serverServiceNamespace string, serverServiceName string, clientServiceNamespace string,
  clientServiceName string
TunnelStatus: name string, tunnelId integer, state string, errorMessage string, clientProxyAddresses [string],
  clientProxyPort integer, timestamp time
ContainerNetworkTunnelProxy.spec: containerNetworkName string, aliases [string], tunnels [Tunnel], baseImage string
ContainerNetworkTunnelProxy.status: state string, tunnelStatuses [TunnelStatus], tunnelConfigurationVersion integer,
  clientProxyContainerImage string, clientProxyContainerId string, serverProxyProcessId integer,
  serverProxyStartupTimestamp time, serverProxyStdOutFile string, serverProxyStdErrFile string,
  clientProxyControlPort integer, clientProxyDataPort integer, serverProxyControlPort integer, message string

Service.spec: address string, port integer, protocol string, addressAllocationMode string
Service.status: state string, proxyProcessPid integer, proxyConfigFile string, effectiveAddress string,
  effectivePort integer, proxylessEndpointNamespace string, proxylessEndpointName string
Endpoint.spec: serviceNamespace string, serviceName string, address string, port integer
Endpoint.status:
"""
OURS = {"message", "conditions", "observedGeneration"}
"""The fields that a status has here and not upstream."""


def table() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in TABLE.replace(",\n", ",").strip().splitlines():
        name, _, fields = line.partition(":")
        parts = [one.strip().partition(" ") for one in fields.split(",") if one.strip()]
        found |= {name: {field: kind for field, _, kind in parts}} if line else {}
    return found


TYPES = table()


def expected(name: str, path: str) -> Iterator[tuple[str, str]]:
    """The paths of all fields below a type, and their types."""
    for field, kind in TYPES[name].items():
        item = kind.strip("[]")
        shown = "array" if kind.startswith("[") else "object" if kind == "{}" or kind in TYPES else kind
        yield f"{path}.{field}", shown
        if item in TYPES:
            yield from expected(item, f"{path}.{field}")
        elif shown == "array" and item != "any":
            yield f"{path}.{field}[]", item


def served(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """The paths of all fields of a schema, and their types."""
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        yield where, "time" if field.get("format") == "date-time" else field["type"]
        items = field.get("items", {})
        if items.get("type") not in (None, "object"):
            yield f"{where}[]", items["type"]
        yield from served(items or field, where)


def schema_of(kind: type[Object]) -> dict[str, Any]:
    (version,) = crd_of(kind)["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]
    return schema


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: definition_of(kind).gvk.kind)
def test_a_kind_has_the_fields_and_types_of_upstream(kind: type[Object]) -> None:
    name, schema = definition_of(kind).gvk.kind, schema_of(kind)
    for part in ("spec", "status"):
        assert (f"{name}.{part}" in TYPES) == (part in schema)
        if part not in schema:
            continue
        wanted, found = dict(expected(f"{name}.{part}", part)), dict(served(schema[part], part))
        extra = {path for path in found.keys() - wanted.keys() if part == "spec" or path.split(".")[1] not in OURS}
        assert ({path: found.get(path) for path in wanted}, extra) == (wanted, set())


def test_the_table_has_every_kind() -> None:
    assert {name.split(".")[0] for name in TYPES if name.endswith(".spec")} == {
        definition_of(one).gvk.kind for one in ALL
    }


PROGRAM = {"executablePath": "/bin/check", "args": ["{{ .Name }}"], "executionType": "", "mode": ""}
EMPTY: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "Executable",
        {
            **EXE,
            "mode": "",
            "executionType": "",
            "ambientEnvironment": {"behavior": ""},
            "terminal": {"socketMode": "", "udsPath": ""},
            "healthProbes": [
                {
                    "name": "p",
                    "type": "Executable",
                    "schedule": {"interval": "5s", "kind": ""},
                    "executableProbe": {"executableTemplate": {"spec": PROGRAM}},
                }
            ],
        },
        {"mode": "session", "execution_type": "Process"},
    ),
    (
        "Service",
        {"protocol": "", "addressAllocationMode": ""},
        {"protocol": "TCP", "address_allocation_mode": "Localhost"},
    ),
    (
        "Container",
        {
            "image": "a",
            "mode": "",
            "ports": [{"containerPort": 1, "protocol": ""}],
            "restartPolicy": "",
            "pullPolicy": "",
        },
        {"mode": "session"},
    ),
    ("ContainerNetwork", {"mode": ""}, {"mode": "session"}),
]


@pytest.mark.parametrize(("kind", "spec", "values"), EMPTY)
async def test_an_empty_text_means_not_given(kind: str, spec: dict[str, Any], values: dict[str, Any]) -> None:
    async with open_local(system()) as local:
        found: Any = await created(local.client, kind, spec)
    assert {name: getattr(found.spec, name) for name in values} == values


async def created(client: Client, kind: str, spec: dict[str, Any]) -> Object:
    await client.create(manifest(kind, spec))
    found: Object = await client.get(Ref(getattr(kinds, kind), "one"))
    return found


def test_empty_texts_within_a_spec_mean_not_given() -> None:
    port = kinds.ContainerPort(container_port=1, protocol="")
    behavior = kinds.AmbientEnvironment(behavior="").behavior
    assert (port.protocol, behavior, kinds.Terminal(socket_mode="").socket_mode) == ("TCP", "Inherit", "listen")
    assert kinds.BuildSecret(id="a", type="").type == "file"
