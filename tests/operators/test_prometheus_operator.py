"""prometheus-operator, unmodified: the StatefulSet of a Prometheus, its configuration from monitors, its rules.

The operator takes no Lease, and its webhooks are another program. Prometheus itself is a stand-in that is ready, as its
image is not here; the configuration that the operator has written for it is read from its Secret.
"""

import base64
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.operator_binaries import build, source_of

from tests.operators.operator_cluster import OperatorCluster, Refused, open_cluster

GUIDE = "example/user-guides/getting-started"
RULES = {"app": "prometheus", "role": "alert-rules"}
_PROMETHEUS = """
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/-/ready", "/-/healthy") else 404)
        self.end_headers()

http.server.ThreadingHTTPServer((os.environ["POD_IP"], 9090), Handler).serve_forever()
"""
# As an init container it writes the configuration once and ends.
_RELOADER = 'case "$*" in *--watch-interval=0*) exit 0;; esac; exec sleep infinity'


class _Loader(yaml.SafeLoader):
    """Reads a plain `=`, one of the operators of matchers, as the text that it is in YAML 1.2."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda _, node: str(node.value))


def read_all(folder: Path, *names: str) -> list[dict[str, Any]]:
    texts = [(folder / name).read_text("utf-8") for name in names]
    return [one for text in texts for one in yaml.load_all(text, _Loader) if one]


@pytest.fixture(scope="module")
def source() -> Path:
    return source_of("prometheus-operator")


@pytest.fixture(scope="module")
def cluster(source: Path) -> Iterator[OperatorCluster]:
    images = {
        "*/prometheus-operator:*": [str(build("prometheus-operator"))],
        "*/prometheus-config-reloader:*": ["/bin/sh", "-c", _RELOADER, "reloader"],
        "*/prometheus/prometheus:*": ["/bin/sh", "-c", f"exec {sys.executable} -c '{_PROMETHEUS}'"],
    }
    with open_cluster("prometheus-operator", images) as opened:
        opened.install(read_all(source, "bundle.yaml"))
        opened.wait_available("prometheus-operator", "default")
        names = ("service-account", "cluster-role", "cluster-role-binding")
        opened.apply(read_all(source / "example/rbac/prometheus", *(f"prometheus-{one}.yaml" for one in names)))
        yield opened


def configuration(cluster: OperatorCluster) -> dict[str, Any]:
    """What the operator has written for Prometheus; empty if there is nothing yet."""
    found = cluster.get("secret", "prometheus-prometheus")
    packed = (found or {}).get("data", {}).get("prometheus.yaml.gz", "")
    read: dict[str, Any] = yaml.safe_load(gzip.decompress(base64.b64decode(packed))) if packed else {}
    return read


def jobs(cluster: OperatorCluster) -> list[str]:
    scraped: list[dict[str, Any]] = configuration(cluster).get("scrape_configs") or []
    return [one["job_name"] for one in scraped]


def is_available(cluster: OperatorCluster) -> bool:
    conditions = cluster.status("prometheus", "prometheus").get("conditions", [])
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)


def test_a_prometheus_runs_with_the_configuration_and_rules_that_objects_describe(
    cluster: OperatorCluster, source: Path
) -> None:
    (prometheus,) = read_all(source / GUIDE, "prometheus-service-monitor.yaml")
    prometheus["spec"]["ruleSelector"] = {"matchLabels": RULES}
    cluster.create(prometheus)
    cluster.wait(lambda: is_available(cluster))
    assert cluster.status("statefulset", "prometheus-prometheus")["readyReplicas"] == 1
    assert jobs(cluster) == []

    cluster.apply(read_all(source / GUIDE, "example-app-service.yaml", "example-app-service-monitor.yaml"))
    cluster.wait(lambda: jobs(cluster) == ["serviceMonitor/default/example-app/0"])
    groups = [{"name": "app", "rules": [{"alert": "Down", "expr": 'up{job="example-app"} == 0'}]}]
    rule = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "spec": {"groups": groups}}
    cluster.create({**rule, "metadata": {"name": "down", "namespace": "default", "labels": RULES}})
    files = cluster.wait(lambda: (cluster.get("configmap", "prometheus-prometheus-rulefiles-0") or {}).get("data"))
    assert [
        rule["expr"] for text in files.values() for group in yaml.safe_load(text)["groups"] for rule in group["rules"]
    ] == ['up{job="example-app"} == 0']

    cluster.kubectl("delete", "servicemonitor", "example-app")
    cluster.wait(lambda: jobs(cluster) == [])
    cluster.kubectl("delete", "prometheus", "prometheus")
    children = (("statefulset", "prometheus-prometheus"), ("secret", "prometheus-prometheus"))
    cluster.wait(lambda: not any(cluster.get(kind, name) for kind, name in children))


def test_a_prometheus_may_be_scaled(cluster: OperatorCluster, source: Path) -> None:
    (prometheus,) = read_all(source / GUIDE, "prometheus-service-monitor.yaml")
    cluster.create({**prometheus, "metadata": {"name": "scaled", "namespace": "default"}})
    cluster.wait(lambda: cluster.status("prometheus", "scaled").get("availableReplicas") == 1)
    cluster.kubectl("scale", "prometheus", "scaled", "--replicas=2")
    cluster.wait(lambda: cluster.status("prometheus", "scaled").get("availableReplicas") == 2)


def test_it_may_do_what_its_role_says_and_no_more(cluster: OperatorCluster) -> None:
    who = "--as=system:serviceaccount:default:prometheus-operator"
    assert cluster.kubectl("auth", "can-i", "create", "statefulsets.apps", who).strip() == "yes"
    with pytest.raises(Refused):
        cluster.kubectl("auth", "can-i", "create", "clusterroles.rbac.authorization.k8s.io", who)
