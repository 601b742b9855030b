"""The programs that controller-runtime's envtest starts, `kube-apiserver` and `etcd`, as stand-ins of this server."""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.apiserver.envtest.envtest_assets import default_folder, write_assets

__all__ = ["default_folder", "write_assets"]

__getattr__, __dir__ = late_exports(
    __name__, {"levelset.apiserver.envtest.envtest_assets": "default_folder write_assets"}
)
