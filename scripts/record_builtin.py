"""Records the answers of kube-apiserver to the objects in tests/conformance/builtin/cases.

    make record-builtin                 # all areas
    make record-builtin AREAS=workloads # some of them, or of the topics in sequences/ and requests/

Starts kube-apiserver and etcd (built by `kube_binaries.py` on first use) and writes tests/conformance/builtin/answers.
With `--server URL --token TOKEN` a running server is used.
"""

import argparse
import http.client
import json
import math
import sys
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from scripts.kube_server import Server, serve

from tests.conformance.builtin import (
    recorded_managers,
    recorded_objects,
    recorded_requests,
    recorded_resources,
    recorded_sequences,
)

__all__ = ["main", "record", "record_sequences"]

_SETTLED = 5.0  # seconds until discovery and OpenAPI have new definitions
_EARLY = 0.1  # of a second, when the requests of this second are sent


def record(server: Server, areas: Iterable[str]) -> int:
    """Records these areas and topics; returns the number of answers."""
    chosen = tuple(areas)
    for namespace in (recorded_objects.NAMESPACE, recorded_sequences.NAMESPACE):
        server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    _record_resources(server)
    count = record_sequences(server, chosen, recorded_sequences.DEFAULT_RANGES)
    count += sum(_record_requests(server, topic) for topic in recorded_requests.TOPICS if topic in chosen)
    if recorded_managers.TOPIC in chosen:
        count += _record_managers(server)
    others = {*recorded_sequences.TOPICS, *recorded_requests.TOPICS, recorded_managers.TOPIC}
    for area in (one for one in chosen if one not in others):
        for plural in ("limitranges", "resourcequotas"):  # of an area before, which would change Pods
            server.request("DELETE", f"/api/v1/namespaces/{recorded_objects.NAMESPACE}/{plural}")
        found = {base.name: _answers(base, server) for base in recorded_objects.load(area)}
        lines = [f"{json.dumps(name)}: {_lines(one)}" for name, one in found.items()]
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        (recorded_objects.FOLDER / "answers" / f"{area}.json").write_text(text)
        here = sum(len(one) for one in found.values())
        refused = sum(answer["code"] >= 400 for one in found.values() for answer in one.values())
        print(f"{area}: {here} answers, {refused} of them refusals")
        count += here
    return count


def record_sequences(server: Server, chosen: Iterable[str], ranges: str) -> int:
    """Records the chosen topics of sequences that are for a server with these ranges; returns the number of answers."""
    topics = [one for one in recorded_sequences.TOPICS if one in chosen]
    return sum(_record_topic(server, one) for one in topics if recorded_sequences.service_ranges(one) == ranges)


def _record_other_clusters(chosen: Iterable[str]) -> int:
    """Records the chosen topics that need a server with ranges of their own; returns the number of answers."""
    needed = {recorded_sequences.service_ranges(one) for one in recorded_sequences.TOPICS if one in chosen}
    count = 0
    for ranges in sorted(needed - {recorded_sequences.DEFAULT_RANGES}):
        with serve(service_ranges=ranges) as server:
            server.request("POST", "/api/v1/namespaces", {"metadata": {"name": recorded_sequences.NAMESPACE}})
            count += record_sequences(server, chosen, ranges)
    return count


def _record_topic(server: Server, topic: str) -> int:
    """Records the sequences of a topic; returns the number of answers."""
    found = {one.name: _sequence_answers(one, server) for one in recorded_sequences.load(topic)}
    lines = [f"{json.dumps(name)}: {_lines(one)}" for name, one in found.items()]
    recorded_sequences.answers_file(topic).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    count = sum(map(len, found.values()))
    print(f"{topic}: {count} answers in sequences")
    return count


def _record_managers(server: Server) -> int:
    """Records the histories of many field managers; returns the number of answers."""
    namespace = {"metadata": {"name": recorded_managers.NAMESPACE}}
    server.request("POST", "/api/v1/namespaces", namespace)
    server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", recorded_managers.DEFINITION)
    time.sleep(_SETTLED)
    found = {one.name: _manager_answers(one, server) for one in recorded_managers.load()}
    lines = [f"{json.dumps(name)}: {_lines(one)}" for name, one in found.items()]
    recorded_managers.ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    count = sum(map(len, found.values()))
    print(f"{recorded_managers.TOPIC}: {count} answers to writes of field managers")
    return count


def _manager_answers(history: recorded_managers.History, server: Server) -> dict[str, Any]:
    """The answers of a history; each request is sent and answered within its second."""
    exchange = recorded_managers.run(history)
    begin = math.ceil(time.time())
    try:
        request = next(exchange)
        while True:
            time.sleep(max(0.0, begin + request.second + _EARLY - time.time()))
            path = f"{request.path}?fieldManager={quote(request.manager)}"
            reply = server.request(request.method, path, request.body, request.media)
            if int(time.time()) != begin + request.second:
                raise RuntimeError(f"{history.name}: the machine is too busy to send a request in its second")
            request = exchange.send((reply.code, reply.body))
    except StopIteration as end:
        found: dict[str, Any] = end.value
        return found


def _record_requests(server: Server, topic: str) -> int:
    """Records the answers to single requests; returns their number."""
    preparing = Server(server.url, server.token)  # the connection of the other one may have been idle for too long
    for path, tree in recorded_requests.setup(topic):
        while preparing.request("POST", path, tree).code == 404:  # a definition is not served yet
            time.sleep(0.1)
    time.sleep(_SETTLED)
    found: dict[str, list[str]] = {}
    requests, connection = recorded_requests.load(topic), server.connect()
    for one in requests:
        answer = recorded_requests.answer(one, _reply(connection, server.token, one))
        found.setdefault(json.dumps(answer, separators=(",", ":")), []).append(one.key)
    rows = [f"[{answer}, {json.dumps(keys, indent=1)}]" for answer, keys in found.items()]
    recorded_requests.answers_file(topic).write_text("[\n" + ",\n".join(rows) + "\n]\n")
    print(f"{topic}: {len(requests)} answers to requests, {len(found)} of them different")
    return len(requests)


def _reply(
    connection: http.client.HTTPSConnection, token: str, request: recorded_requests.Request
) -> recorded_requests.Reply:
    body = None if request.body is None else json.dumps(request.body).encode()
    headers = {"Authorization": f"Bearer {token}"}
    headers |= {} if request.accept is None else {"Accept": request.accept}
    headers |= {} if body is None else {"Content-Type": request.media}
    connection.request(request.method, request.path, body, headers)
    answer = connection.getresponse()
    if answer.status == 429:  # the cache of a new kind is not ready
        answer.read()
        time.sleep(1)
        return _reply(connection, token, request)
    if request.is_watch and answer.status == 200:
        connection.close()  # it opens again with the next request
        return recorded_requests.Reply(200, answer.getheader("Content-Type"), b"")
    return recorded_requests.Reply(answer.status, answer.getheader("Content-Type"), answer.read())


def _sequence_answers(sequence: recorded_sequences.Sequence, server: Server) -> dict[str, Any]:
    exchange = recorded_sequences.run(sequence)
    try:
        request = next(exchange)
        while True:
            reply = server.request(*request)
            request = exchange.send((reply.code, reply.body))
    except StopIteration as end:
        found: dict[str, Any] = end.value
        return found


def _record_resources(server: Server) -> None:
    """Records what the server serves: kinds, names, verbs, categories and subresources."""
    groups = server.request("GET", "/apis").body["groups"]
    paths = ["/api/v1", *(f"/apis/{one['groupVersion']}" for group in groups for one in group["versions"])]
    found = {path: recorded_resources.normal_form(server.request("GET", path).body) for path in paths}
    rows = [f"{json.dumps(path)}: {_lines(one)}" for path, one in sorted(found.items())]
    recorded_resources.FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    print(f"{sum(map(len, found.values()))} resources and subresources")


def _lines(answers: dict[str, Any]) -> str:
    """One line per answer, so that a change of an answer is a change of a line."""
    rows = [f" {json.dumps(name)}: {json.dumps(one, separators=(',', ':'))}" for name, one in answers.items()]
    return "{\n" + ",\n".join(rows) + "\n}"


def _answers(base: recorded_objects.Base, server: Server) -> dict[str, Any]:
    exchange = recorded_objects.run(base)
    try:
        request = next(exchange)
        while True:
            try:
                reply = server.request(*request, content_type=recorded_objects.media(request[0]))
            except http.client.RemoteDisconnected as error:
                raise RuntimeError(f"{base.name}: the server closed the connection for {request}") from error
            request = exchange.send((reply.code, reply.body))
    except StopIteration as end:
        found: dict[str, Any] = end.value
        return found


def main() -> int:
    """Records the areas of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    topics = [*recorded_sequences.TOPICS, *recorded_requests.TOPICS, recorded_managers.TOPIC]
    parser.add_argument("areas", nargs="*", default=[*recorded_objects.AREAS, *topics])
    parser.add_argument("--server")
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    if given.server:
        count = record(Server(given.server, given.token), given.areas)
    else:
        with serve() as server:
            count = record(server, given.areas)
        count += _record_other_clusters(given.areas)
    print(f"{count} answers recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
