"""Image layers: tar archives that a generated Dockerfile adds on top of an image."""

import asyncio
import base64
import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from levelset.errors import LevelsetError
from levelset_dcp.engines.errors import EngineNotFound
from levelset_dcp.engines.interface import Engine, Sink
from levelset_dcp.engines.models import ImageBuild
from levelset_dcp.kinds import ImageLayer

__all__ = ["BadLayer", "layered_image", "layered_name"]


class BadLayer(LevelsetError):
    """A layer that cannot be read, or has another digest; the message names it."""


def layered_name(image: str, layers: Sequence[ImageLayer]) -> str:
    """The name of the image with these layers, derived from their digests; pure."""
    digest = hashlib.sha256("\0".join([image, *(one.digest for one in layers)]).encode()).hexdigest()[:16]
    repository = image.partition("@")[0]
    head, _, tail = repository.rpartition("/")
    return f"{head + '/' if head else ''}{tail.partition(':')[0]}:dcp-{digest}"


async def layered_image(
    engine: Engine, image: str, layers: Sequence[ImageLayer], *, out: Sink | None = None, err: Sink | None = None
) -> str:
    """Builds the image with these layers unless it exists, and returns its name; raises BadLayer."""
    name = layered_name(image, layers)
    try:
        await engine.inspect_image(name)
    except EngineNotFound:
        folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="levelset-layers-")
        try:
            await asyncio.to_thread(_write, Path(folder.name), image, layers)
            await engine.build(ImageBuild(context=folder.name, tags=(name,)), out=out, err=err)
        finally:
            await asyncio.to_thread(folder.cleanup)
    return name


def _write(folder: Path, image: str, layers: Sequence[ImageLayer]) -> None:
    lines = [f"FROM {image}"]
    for number, one in enumerate(layers):
        name = f"layer{number}.tar"
        (folder / name).write_bytes(_content(one))
        lines.append(f"ADD {name} /")
    (folder / "Dockerfile").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _content(layer: ImageLayer) -> bytes:
    try:
        if layer.source:
            content = Path(layer.source).read_bytes()
        else:
            content = base64.b64decode(layer.raw_contents, validate=True)
    except (OSError, ValueError) as error:
        raise BadLayer(f"image layer {layer.digest}: {error}") from error
    if layer.sha256 and hashlib.sha256(content).hexdigest() != layer.sha256.lower().removeprefix("sha256:"):
        raise BadLayer(
            f"image layer {layer.digest}: its content has another SHA-256 than spec.imageLayers says, {layer.sha256}"
        )
    return content
