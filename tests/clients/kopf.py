"""kopf: a stock operator with a create handler, an update handler, a finalizer, a timer and events."""

import threading
from typing import Any

import kopf

from tests.clients.verbs import GROUP, Plain, restart, until, verb, widget

NAMESPACE = "with-kopf"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets"
ticks: list[str] = []


@kopf.on.startup()
def set_up(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = True
    settings.persistence.finalizer = f"{GROUP}/kopf"


@kopf.on.create("widgets")
def created(spec: Any, body: Any, **_: Any) -> dict[str, Any]:
    kopf.info(body, reason="Painted", message="it has a color now")
    return {"color": spec.get("color")}


@kopf.on.update("widgets", field="spec.color")
def updated(old: Any, new: Any, patch: Any, **_: Any) -> None:
    patch.status["change"] = f"{old} to {new}"


@kopf.on.delete("widgets")
def deleted(name: str, **_: Any) -> None:
    ticks.append(f"deleted {name}")


@kopf.timer("widgets", interval=0.2)
def ticked(name: str, **_: Any) -> None:
    ticks.append(name)


def use(plain: Plain) -> None:
    def status(name: str) -> Any:
        return plain.must("GET", f"{WIDGETS}/{name}").get("status") or {}

    with verb("watch"):
        plain.must("POST", WIDGETS, widget("w", color="red"))
        until(lambda: status("w").get("created") == {"color": "red"})
    with verb("patch"):
        plain.must("PATCH", f"{WIDGETS}/w", {"spec": {"color": "blue"}}, "application/merge-patch+json")
        until(lambda: status("w").get("change") == "red to blue")
    with verb("finalizer"):
        assert plain.must("GET", f"{WIDGETS}/w")["metadata"]["finalizers"] == [f"{GROUP}/kopf"]
    with verb("timer"):
        until(lambda: ticks.count("w") >= 3)
    with verb("events"):
        path = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name%3Dw"
        until(lambda: "Painted" in [item["reason"] for item in plain.must("GET", path)["items"]])
    with verb("delete-background"):
        plain.must("DELETE", f"{WIDGETS}/w")
        until(lambda: not plain.has(f"{WIDGETS}/w"))
        assert "deleted w" in ticks
    with verb("restart"):
        restart()
        plain.must("POST", WIDGETS, widget("again", color="red"))
        until(lambda: status("again").get("created") == {"color": "red"}, within=40)
        plain.must("DELETE", f"{WIDGETS}/again")
        until(lambda: not plain.has(f"{WIDGETS}/again"))


def main() -> None:
    plain = Plain()
    plain.define()
    plain.make_namespace(NAMESPACE)
    ready, stop = threading.Event(), threading.Event()

    def operate() -> None:
        kopf.run(standalone=True, namespaces=[NAMESPACE], ready_flag=ready, stop_flag=stop)

    operator = threading.Thread(target=operate)
    operator.start()
    try:
        assert ready.wait(30), "the operator is not ready"
        use(plain)
    finally:
        stop.set()
        operator.join(30)


if __name__ == "__main__":
    main()
