"""An API server for the calls that plans contain: it stores objects, and applies patches with their preconditions."""

from __future__ import annotations

import copy
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from adapter import Answer, Json

REASONS = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 422: "Invalid", 500: "InternalError", 504: "Timeout"}
KINDS = {"replicasets": "ReplicaSet", "deployments": "Deployment", "planneddeployments": "PlannedDeployment"}


def status(code: int, message: str, reason: str = "", **details: Any) -> Json:
    """A Status as the API server prints it for a call that failed."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason or REASONS[code],
        "details": details,
        "code": code,
    }


class RefusedError(Exception):
    """A call that the API server answers with an error."""

    def __init__(self, body: Json) -> None:
        super().__init__(body["message"])
        self.body = body


class World:
    """The stored objects by UID."""

    def __init__(self, objects: list[Json], clock: str) -> None:
        self.clock = clock
        # Whether status.terminatingReplicas is stored, as by default since Kubernetes 1.35.
        self.stores_terminating = True
        self.objects = {it["metadata"]["uid"]: copy.deepcopy(it) for it in objects}
        self.version = max(int(it["metadata"]["resourceVersion"]) for it in objects)
        self.created = 0

    def all(self) -> list[Json]:
        return copy.deepcopy(list(self.objects.values()))

    def find(self, kind: str, name: str) -> Json:
        for it in self.objects.values():
            if (it["kind"], it["metadata"]["name"]) == (kind, name):
                return it
        resource = {kind: resource for resource, kind in KINDS.items()}[kind]
        body = status(404, f'{resource}.apps "{name}" not found', name=name, group="apps", kind=resource)
        raise RefusedError(body)

    def put(self, it: Json) -> Json:
        """Stores an object, as another client would do."""
        self._store(it)
        return it

    def remove(self, kind: str, name: str) -> None:
        del self.objects[self.find(kind, name)["metadata"]["uid"]]

    def call(self, method: str, path: str, content_type: str, body: bytes) -> Answer:
        url = urlsplit(path)
        selector = dict(part.split("=") for part in parse_qs(url.query).get("labelSelector", [""])[0].split(",") if part)
        try:
            done = self._call(method, url.path.split("/"), selector, content_type, json.loads(body) if body else None)
        except RefusedError as refused:
            return Answer(refused.body["code"], json.dumps(refused.body).encode())
        return Answer(201 if method == "POST" else 200, json.dumps(done).encode())

    def _call(self, method: str, path: list[str], selector: Json, content_type: str, body: Any) -> Json:
        # /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]
        kind, name, subresource = KINDS[path[6]], *[*path[7:], "", ""][:2]
        if method == "GET" and not name:
            items = [it for it in self.all() if it["kind"] == kind]
            items = [it for it in items if selector.items() <= it["metadata"].get("labels", {}).items()]
            for it in items:  # the API server prints these for the list only
                del it["apiVersion"], it["kind"]
            version = {"resourceVersion": str(self.version)}
            return {"kind": f"{kind}List", "apiVersion": "apps/v1", "metadata": version, "items": items}
        if method == "POST":
            return self._create(body)
        it = copy.deepcopy(self.find(kind, name))
        if method == "GET":
            return it
        if method == "DELETE":
            self._check(it, body["preconditions"])
            del self.objects[it["metadata"]["uid"]]
            details = {"name": name, "group": "apps", "kind": path[6], "uid": it["metadata"]["uid"]}
            return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return self._patch(it, subresource, content_type, body)

    def _create(self, it: Json) -> Json:
        name = it["metadata"]["name"]
        if any((it["kind"], name) == (have["kind"], have["metadata"]["name"]) for have in self.objects.values()):
            message = f'replicasets.apps "{name}" already exists'
            body = status(409, message, "AlreadyExists", name=name, group="apps", kind="replicasets")
            raise RefusedError(body)
        self.created += 1
        it = copy.deepcopy(it)
        it["metadata"] |= {
            "uid": f"00000000-0000-4000-8000-{self.created:012}",
            "creationTimestamp": self.clock,
            "generation": 1,
        }
        it["status"] = {"replicas": 0}
        return self._store(it)

    def _patch(self, it: Json, subresource: str, content_type: str, body: Any) -> Json:
        before = copy.deepcopy(it)
        if content_type == "application/json-patch+json":
            apply_json_patch(it, body)
        else:
            self._check(it, body["metadata"])
            if not subresource:
                body = {key: value for key, value in body.items() if key != "status"}
            merge(it, body)
        if not self.stores_terminating:
            it["status"].pop("terminatingReplicas", None)
        if it["spec"] != before["spec"]:
            it["metadata"]["generation"] += 1
        if it != before:
            self._store(it)
        return copy.deepcopy(it)

    def _check(self, it: Json, wanted: Json) -> None:
        for key in ("uid", "resourceVersion"):
            if key in wanted and wanted[key] != it["metadata"][key]:
                resource, name = f"{it['kind'].lower()}s", it["metadata"]["name"]
                message = (
                    f'Operation cannot be fulfilled on {resource}.apps "{name}": the object has been modified; '
                    "please apply your changes to the latest version and try again"
                )
                body = status(409, message, name=name, group="apps", kind=resource)
                raise RefusedError(body)

    def _store(self, it: Json) -> Json:
        self.version += 1
        it["metadata"]["resourceVersion"] = str(self.version)
        self.objects[it["metadata"]["uid"]] = copy.deepcopy(it)
        return it


def apply_json_patch(it: Json, operations: list[Json]) -> None:
    for operation in operations:
        *parents, key = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place = it
        for parent in parents:
            place = place[parent]
        if operation["op"] == "test":
            if place.get(key) != operation["value"]:
                message = "the server rejected our request due to an error in our request"
                raise RefusedError(status(422, message))
        elif operation["op"] in ("add", "replace"):
            place[key] = operation["value"]
        elif operation["op"] == "remove":
            del place[key]
        else:
            raise ValueError(operation)


def merge(it: Json, patch: Json) -> None:
    for key, value in patch.items():
        if value is None:
            it.pop(key, None)
        elif isinstance(value, dict) and isinstance(it.get(key), dict):
            merge(it[key], value)
        else:
            it[key] = copy.deepcopy(value)
