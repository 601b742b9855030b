"""kopf as in its walkthrough: a plain function, which creates its ConfigMap with the official client.

Started by `kopf run`. The client is created once, and not in each call as there, which is cheaper. The
server's address is in the environment.
"""

import json
import os
import sys
import threading
import time

import kopf
import kubernetes

SERVER, TOKEN = os.environ["PEER_SERVER"], os.environ["PEER_TOKEN"]


@kopf.on.login()
def login(**_):
    return kopf.ConnectionInfo(server=SERVER, token=TOKEN)


@kopf.on.startup()
def start(memo, **_):
    config = kubernetes.client.Configuration(host=SERVER)
    config.api_key = {"authorization": f"Bearer {TOKEN}"}
    memo.api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(config))
    threading.Thread(target=report_usage, daemon=True).start()


@kopf.on.create("example.dev", "v1", "websites")
def create(spec, namespace, name, patch, memo, **_):
    child = {"metadata": {"name": name}, "data": {"image": spec["image"]}}
    kopf.adopt(child)
    memo.api.create_namespaced_config_map(namespace, child)
    patch.status["ready"] = 1


def report_usage():
    """Prints the CPU time on request, at the end."""
    began = time.process_time()
    print(json.dumps({"phase": "started"}), flush=True)
    sys.stdin.readline()
    print(json.dumps({"phase": "spent", "cpu": time.process_time() - began}), flush=True)
