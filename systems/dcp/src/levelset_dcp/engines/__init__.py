"""Container engines: one interface with Docker, Podman and an in-memory implementation."""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset_dcp.engines.cli.engine import DockerEngine, PodmanEngine
    from levelset_dcp.engines.errors import (
        CouldNotAllocate,
        EngineAlreadyExists,
        EngineError,
        EngineNotFound,
        EngineRefused,
        EngineTimedOut,
        Incomplete,
        ObjectInUse,
        RuntimeNotHealthy,
    )
    from levelset_dcp.engines.interface import CALL, LONG_CALL, Engine, Sink
    from levelset_dcp.engines.memory.engine import InMemoryEngine
    from levelset_dcp.engines.memory.objects import FakeFile
    from levelset_dcp.engines.models import (
        Attachment,
        ContainerInfo,
        ContainerStatusName,
        EngineEvent,
        EngineHealth,
        EngineStatus,
        EventKind,
        HealthName,
        ImageBuild,
        ImageBuildSecret,
        ImageInfo,
        LogOrigin,
        Mount,
        NetworkInfo,
        NewContainer,
        NewExec,
        NewNetwork,
        PortBinding,
        PullPolicy,
        RestartPolicy,
        VolumeInfo,
    )
    from levelset_dcp.engines.retries import act_and_verify
    from levelset_dcp.engines.selection import choose_engine, known_engines, open_engine

__all__ = [
    "CALL",
    "LONG_CALL",
    "Attachment",
    "ContainerInfo",
    "ContainerStatusName",
    "CouldNotAllocate",
    "DockerEngine",
    "Engine",
    "EngineAlreadyExists",
    "EngineError",
    "EngineEvent",
    "EngineHealth",
    "EngineNotFound",
    "EngineRefused",
    "EngineStatus",
    "EngineTimedOut",
    "EventKind",
    "FakeFile",
    "HealthName",
    "ImageBuild",
    "ImageBuildSecret",
    "ImageInfo",
    "InMemoryEngine",
    "Incomplete",
    "LogOrigin",
    "Mount",
    "NetworkInfo",
    "NewContainer",
    "NewExec",
    "NewNetwork",
    "ObjectInUse",
    "PodmanEngine",
    "PortBinding",
    "PullPolicy",
    "RestartPolicy",
    "RuntimeNotHealthy",
    "Sink",
    "VolumeInfo",
    "act_and_verify",
    "choose_engine",
    "known_engines",
    "open_engine",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset_dcp.engines.cli.engine": "DockerEngine PodmanEngine",
        "levelset_dcp.engines.errors": (
            "CouldNotAllocate EngineAlreadyExists EngineError EngineNotFound EngineRefused EngineTimedOut "
            "Incomplete ObjectInUse RuntimeNotHealthy"
        ),
        "levelset_dcp.engines.interface": "CALL LONG_CALL Engine Sink",
        "levelset_dcp.engines.memory.engine": "InMemoryEngine",
        "levelset_dcp.engines.memory.objects": "FakeFile",
        "levelset_dcp.engines.models": (
            "Attachment ContainerInfo ContainerStatusName EngineEvent EngineHealth EngineStatus EventKind "
            "HealthName ImageBuild ImageBuildSecret ImageInfo LogOrigin Mount NetworkInfo NewContainer NewExec "
            "NewNetwork PortBinding PullPolicy RestartPolicy VolumeInfo"
        ),
        "levelset_dcp.engines.retries": "act_and_verify",
        "levelset_dcp.engines.selection": "choose_engine known_engines open_engine",
    },
)
