"""Objects: decode, encode and hold, compared with lightkube and pydantic. Run by `make bench`.

Every line is measured in a process of its own, so that memory is not shared; time is CPU time, best of several
rounds. Only the ratios within one run carry over to another machine.
"""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import payloads

HELD = 100_000
PEERS = ("lightkube", "pydantic")


def tools(holder: str, kind: str) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes] | None]:
    """The functions with which a library decodes and encodes an object."""
    if holder == "json":
        return json.loads, lambda tree: json.dumps(tree).encode()
    if holder.startswith("levelset"):
        return _levelset(holder, kind)
    if holder == "pydantic":
        import models_pydantic

        model = getattr(models_pydantic, kind)
        return model.model_validate_json, lambda obj: obj.model_dump_json(exclude_none=True).encode()
    return _lightkube(kind)


def _levelset(holder: str, kind: str) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes] | None]:
    from levelset.kinds.core_v1 import Pod
    from levelset.objects import decode, decode_cached, decode_head, encode
    from models_levelset import Website

    class_: Any = Pod if kind == "Pod" else Website
    if holder == "levelset typed":
        return (lambda raw: decode(class_, raw)), encode
    if holder == "levelset read-modify-write":
        return (lambda raw: decode(class_, raw).with_metadata(generation=9)), encode
    if holder == "levelset head":
        return decode_head, None
    if holder == "levelset cached":
        return decode_cached, None
    return (lambda raw: decode_cached(raw, managed_fields=False)), None


def _lightkube(kind: str) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes] | None]:
    import lightkube.generic_resource as generic
    import msgspec
    from lightkube.resources.core_v1 import Pod

    class_ = Pod if kind == "Pod" else generic.create_namespaced_resource("example.dev", "v1", "Website", "websites")
    untyped = msgspec.json.Decoder()
    encoder = msgspec.json.Encoder()
    return (lambda raw: class_.from_dict(untyped.decode(raw))), (lambda obj: encoder.encode(obj.to_dict()))


def measure(holder: str, kind: str, count: int) -> dict[str, float]:
    """Decode, encode and hold, in this process."""
    make = {"Pod": payloads.pod, "Website": payloads.website}[kind]
    read, write = tools(holder, kind)
    sample = make(7)
    result: dict[str, float] = {"size": len(sample), "decode": _best(lambda: read(sample))}
    if write is not None:
        obj = read(sample)
        if holder == "levelset typed":
            # Most writes of a controller are of objects that it built: without an origin, so without unknown fields.
            obj = type(obj)(**{name: getattr(obj, name) for name in obj.__struct_fields__})
        result["encode"] = _best(lambda: write(obj))
    result.update(_hold(read, make, count))
    return result


def _best(call: Callable[[], Any], rounds: int = 7, seconds: float = 0.05) -> float:
    """Microseconds per call: the best of some rounds."""
    loops, spent = 1, 0.0
    while spent < seconds:
        loops *= 2
        spent = _timed(call, loops)
    return min(_timed(call, loops) for _ in range(rounds)) / loops * 1e6


def _timed(call: Callable[[], Any], loops: int) -> float:
    gc.collect()
    start = time.process_time()
    for _ in range(loops):
        call()
    return time.process_time() - start


def _hold(read: Callable[[bytes], Any], make: Callable[[int], bytes], count: int) -> dict[str, float]:
    """Reads and holds `count` different objects with the default garbage collector."""
    pauses: list[float] = []
    began = 0.0

    def watch(phase: str, _: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        else:
            pauses.append(time.perf_counter() - began)

    read(make(0))
    gc.collect()
    held: dict[int, Any] = {}
    before, spent = _resident(), 0.0
    gc.callbacks.append(watch)
    for first in range(0, count, 1000):
        batch = [make(number) for number in range(first, min(first + 1000, count))]
        start = time.process_time()
        for number, raw in enumerate(batch, first):
            held[number] = read(raw)
        spent += time.process_time() - start
        del batch
    memory = _resident() - before
    worst = max(pauses, default=0.0)
    start = time.perf_counter()
    gc.collect()
    full = time.perf_counter() - start
    gc.callbacks.remove(watch)
    return {
        "hold": spent / count * 1e6,
        "bytes": memory / count,
        "pause": worst * 1e3,
        "full": full * 1e3,
    }


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this benchmark reads /proc, which only Linux has")


def _child(holder: str, kind: str, count: int) -> dict[str, float]:
    run = [sys.executable, __file__, "--one", holder, kind, str(count)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{holder} on {kind} failed:\n{done.stderr}")
    return json.loads(done.stdout)


HOLDERS = (
    "json",
    "pydantic",
    "lightkube",
    "levelset typed",
    "levelset read-modify-write",
    "levelset head",
    "levelset cached",
    "levelset cached, cut",
)


def main() -> None:
    """Prints one table for each kind, and the garbage collection of a million cached objects."""
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for kind in ("Website", "Pod"):
        print(f"\n### {kind}, {len(payloads.pod(7) if kind == 'Pod' else payloads.website(7)):,} bytes\n")
        print("| holder | decode us | encode us | hold us | bytes held | longest pause ms | full collection ms |")
        print("|---|---|---|---|---|---|---|")
        for holder in HOLDERS:
            row = rows[holder, kind] = _child(holder, kind, HELD)
            encode = f"{row['encode']:.1f}" if "encode" in row else "-"
            print(
                f"| {holder} | {row['decode']:.2f} | {encode} | {row['hold']:.2f} | {row['bytes']:,.0f} "
                f"| {row['pause']:.1f} | {row['full']:.1f} |",
                flush=True,
            )
        best, peer = rows["levelset cached", kind], rows["lightkube", kind]
        print(f"\ncached against lightkube: {peer['hold'] / best['hold']:.1f} times faster, ", end="")
        print(f"{peer['bytes'] / best['bytes']:.1f} times smaller")
    million = _child("levelset cached", "Website", 1_000_000)
    print(
        f"\na million cached: longest pause {million['pause']:.1f} ms, full collection {million['full']:.1f} ms, ",
        end="",
    )
    print(f"{million['bytes']:,.0f} bytes each, {million['hold']:.2f} us each")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
    else:
        main()
