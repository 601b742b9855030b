"""Builds the container images, of `levelset serve` and of an operator that `levelset init` made, and runs both.

`python -m scripts.image_trials` needs Linux, root, buildah and debootstrap, and no daemon; where one of them is missing
it says so and checks nothing. Base images cannot be pulled everywhere, so a Debian with its own Python stands in for
`python:3.x-slim`; it is cached in `.cache/images`. The trial: the image of the server starts as its own user and
answers, and the operator in its image reconciles an object of that server.
"""

import asyncio
import json
import os
import platform
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from scripts.build_packages import ROOT, build_all

from levelset import Client, GroupVersionKind

__all__ = ["Images", "Skipped", "TrialFailed", "main"]

_CACHE: Final = ROOT / ".cache" / "images"
_SUITE: Final = "trixie"
_BASES: Final = ("docker.io/library/python:3.12-slim", "docker.io/library/python:3.13-slim")
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
_PORT: Final = 16443
_LIMIT: Final = 900.0
"""The seconds that a step may take."""
_LEVELSET: Final = (str(Path(sys.executable).parent / "levelset"),)
_KIND: Final = GroupVersionKind("shop.example.dev", "v1", "Order")
_ORDER: Final = {
    "apiVersion": "shop.example.dev/v1",
    "kind": "Order",
    "metadata": {"name": "first"},
    "spec": {"message": "hello"},
}


class Skipped(Exception):
    """The reason why nothing was checked."""


class TrialFailed(Exception):
    """A step did not do what it should; the message has its output."""


class Images:
    """A folder of images and containers, and the commands of buildah on it."""

    def __init__(self, folder: Path) -> None:
        self._command = ["buildah", "--storage-driver", "vfs", "--root", f"{folder}/root", "--runroot", f"{folder}/run"]

    def run(self, *words: str, cwd: Path = ROOT) -> str:
        """Runs buildah; returns what it printed, without the last newline."""
        return _call([*self._command, *words], cwd)

    def import_base(self, root: Path) -> None:
        """Makes the images that the Dockerfiles begin with out of a root file system."""
        container = self.run("from", "scratch")
        self.run("copy", "--quiet", container, str(root), "/")
        for tag in _BASES:
            self.run("commit", "--quiet", container, tag)
        self.run("rm", container)

    def build(self, tag: str, dockerfile: Path, context: Path) -> None:
        """Builds a Dockerfile as it is; the packages come from the index of this machine."""
        pip = [f"--env={name}={value}" for name, value in os.environ.items() if name in {"PIP_INDEX_URL", "PIP_CERT"}]
        trust = [f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro"] if Path(_CERTIFICATES).exists() else []
        words = ["bud", "--pull-never", "--isolation", "chroot", "--format", "docker", *pip, *trust]
        self.run(*words, "--file", str(dockerfile), "--tag", tag, str(context))

    @contextmanager
    def running(self, tag: str, *arguments: str, volume: Path) -> Generator[Path, None, None]:
        """Runs the entry point of an image with these arguments and a folder as /data; yields its log."""
        config = json.loads(self.run("inspect", "--type", "image", tag))["OCIv1"]["config"]
        container = self.run("from", "--pull-never", tag)
        self.run(
            "config", "--volume", "/data-", container
        )  # without isolation an image's own volume covers the given one
        log = volume.parent / f"{tag.rpartition('/')[2]}.log"
        words = ["run", "--isolation", "chroot", f"--volume={volume}:/data", container, "--", *config["Entrypoint"]]
        with log.open("wb") as out:
            process = subprocess.Popen([*self._command, *words, *arguments], stdout=out, stderr=subprocess.STDOUT)
        try:
            yield log
        finally:
            process.terminate()
            process.wait(30)
            self.run("rm", container)


def main() -> int:
    """Builds and tries the images; returns the exit code."""
    try:
        _require_machine()
    except Skipped as why:
        print(f"test-image: SKIPPED, nothing was checked: {why}")
        return 0
    try:
        with TemporaryDirectory(prefix="levelset-images-") as folder:
            _try_images(Path(folder))
    except TrialFailed as error:
        sys.stderr.write(f"test-image: {error}\n")
        return 1
    return 0


def _require_machine() -> None:
    if platform.system() != "Linux" or os.geteuid() != 0:
        raise Skipped("images are built by root on Linux here")
    for tool in ("buildah", "debootstrap"):
        if shutil.which(tool) is None:
            raise Skipped(f"there is no {tool}; apt-get install buildah debootstrap")


def _try_images(folder: Path) -> None:
    images = Images(folder / "storage")
    _say("the base image")
    images.import_base(_base_files())
    _say("the packages")
    built = build_all(ROOT / "dist")
    _say("the image of levelset serve")
    images.build("localhost/levelset", ROOT / "packaging" / "Dockerfile", ROOT)
    shop = _operator_project(folder, [one.wheel for one in built])
    _say("the image of an operator")
    images.build("localhost/shop", shop / "Dockerfile", shop)
    data = folder / "data"
    data.mkdir()
    os.chown(data, 65532, 65532)
    serve = ("--port", str(_PORT), "--host", "localhost")
    with images.running("localhost/levelset", *serve, volume=data) as log:
        _say(_wait_ready(log))
        kubeconfig = data / "levelset.kubeconfig"
        found = kubeconfig.stat()
        if (found.st_mode & 0o777, found.st_uid) != (0o600, 65532):
            raise TrialFailed(f"{kubeconfig} has mode {found.st_mode:o} and owner {found.st_uid}")
        _reconcile(images, shop, kubeconfig)
    print("test-image: both images were built and ran: the server answered, and the operator reconciled an object")


def _base_files() -> Path:
    """The root file system that stands in for `python:3.x-slim`."""
    root = _CACHE / _SUITE
    if not root.exists():
        partial = _CACHE / f"{_SUITE}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        packages = "--include=python3,python3-venv,ca-certificates"
        _call(["debootstrap", "--variant=minbase", packages, _SUITE, str(partial)], ROOT)
        (partial / "usr/bin/python").symlink_to("python3")
        partial.rename(root)
    return root


def _operator_project(folder: Path, wheels: Sequence[Path]) -> Path:
    """A project as `levelset init` makes it, with the wheel of levelset in the folder that its Dockerfile names."""
    _call([*_LEVELSET, "init", "shop", "--kind", "Order", "--api", "shop.example.dev/v1"], folder)
    (folder / "shop" / "wheels").mkdir()
    for wheel in wheels:
        if wheel.name.startswith("levelset-"):
            shutil.copy(wheel, folder / "shop" / "wheels")
    return folder / "shop"


def _wait_ready(log: Path) -> str:
    """Waits until the server answers; returns the line that says how long it took."""
    insecure = ssl.create_default_context()
    insecure.check_hostname, insecure.verify_mode = False, ssl.CERT_NONE  # the certificate is not what is tried here
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"https://localhost:{_PORT}/readyz", timeout=5, context=insecure).close()
        except OSError:
            time.sleep(0.2)
        else:
            return next((line for line in log.read_text().splitlines() if line.startswith("ready in")), "it answers")
    raise TrialFailed(f"the server does not answer:\n{log.read_text()}")


def _reconcile(images: Images, shop: Path, kubeconfig: Path) -> None:
    """Runs the operator's image on the server, creates an object, and waits for its status."""
    _call([*_LEVELSET, "install", "shop.operator:controllers", "--kubeconfig", str(kubeconfig)], shop)
    with images.running("localhost/shop", "--kubeconfig", "/data/levelset.kubeconfig", volume=kubeconfig.parent) as log:
        if not asyncio.run(_is_reconciled(kubeconfig)):
            raise TrialFailed(f"the operator has written no status; its log:\n{log.read_text()}")


async def _is_reconciled(kubeconfig: Path) -> bool:
    async with await Client.connect(str(kubeconfig)) as client:
        await client.create(_ORDER)
        for _ in range(300):
            if (await client.get(_KIND, "first")).tree.get("status"):
                return True
            await asyncio.sleep(0.2)
    return False


def _call(words: Sequence[str], cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False, timeout=_LIMIT)
    if done.returncode != 0:
        raise TrialFailed(f"{' '.join(words[:8])} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout.strip()


def _say(text: str) -> None:
    print(f"test-image: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
