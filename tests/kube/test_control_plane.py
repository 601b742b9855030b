"""The control plane that the tests of this folder run on."""

import re
from pathlib import Path

import pytest
from scripts.kube_binaries import KUBERNETES_VERSION

from levelset.client import Client
from levelset.errors import Forbidden
from levelset.kinds.core_v1 import ConfigMap
from tests.kube.kube_cluster import KubeCluster


def test_it_is_the_version_that_was_built_on_loopback_with_a_private_kubeconfig(kube: KubeCluster) -> None:
    assert kube.version == f"v{KUBERNETES_VERSION}"
    assert re.fullmatch(r"https://127\.0\.0\.1:\d+", kube.url)
    assert kube.kubeconfig.stat().st_mode & 0o777 == 0o600


async def test_a_user_without_roles_may_read_nothing(kube: KubeCluster, tmp_path: Path, file_access: None) -> None:
    async with await Client.connect(kube.kubeconfig_of("anne", tmp_path / "anne.kubeconfig")) as client:
        with pytest.raises(Forbidden):
            await client.list(ConfigMap, namespace="default")
