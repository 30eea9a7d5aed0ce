"""Kubernetes objects in the form of the API server. Only the identifying fields are read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# A decoded object. Python's integers are exact, and dictionaries keep the order of keys.
Json = dict[str, Any]


class Key(NamedTuple):
    """Namespace and name of a Deployment."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Kind:
    """A kind of objects, and its API path."""

    api_version: str
    kind: str
    plural: str

    def path(self, namespace: str = "", name: str = "") -> str:
        """The path of an object, or of the list of objects in a namespace or in the cluster."""
        group = "api" if "/" not in self.api_version else "apis"
        parts = [f"/{group}/{self.api_version}", *(("namespaces", namespace) if namespace else ()), self.plural]
        return "/".join([*parts, name] if name else parts)


DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
# The custom resource that can be used next to the Deployment controller of Kubernetes.
PLANNED_DEPLOYMENT = Kind("apps.rollplan.dev/v1alpha1", "PlannedDeployment", "planneddeployments")
REPLICA_SET = Kind("apps/v1", "ReplicaSet", "replicasets")
POD = Kind("v1", "Pod", "pods")
EVENT = Kind("v1", "Event", "events")


class Controller(NamedTuple):
    """The controller of an object."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class Object:
    """An object, and its JSON."""

    api_version: str
    kind: str
    key: Key
    uid: str
    # The resourceVersion.
    version: str
    json: str = field(repr=False)
    controller: Controller | None = None

    @classmethod
    def parse(cls, it: Json, kind: Kind) -> Object:
        """Reads an object. Items of lists lack a kind.

        Managed fields show the planner who wrote an owner last. Those of ReplicaSets and pods, and the specs of pods, are
        not kept, because caches have many of them.
        """
        metadata = it["metadata"]
        head = {"apiVersion": it.get("apiVersion", kind.api_version), "kind": it.get("kind", kind.kind)}
        kept = {**head, **it}
        if kind in (REPLICA_SET, POD):
            kept["metadata"] = {key: value for key, value in metadata.items() if key != "managedFields"}
        if kind == POD:
            kept = {**head, "metadata": kept["metadata"], "status": it.get("status", {})}
        return cls(
            head["apiVersion"],
            head["kind"],
            Key(metadata.get("namespace", ""), metadata["name"]),
            metadata["uid"],
            metadata["resourceVersion"],
            json.dumps(kept, separators=(",", ":")),
            _controller(metadata),
        )

    @classmethod
    def from_text(cls, text: str | bytes, kind: Kind) -> Object:
        """Reads the text of an object."""
        return cls.parse(json.loads(text), kind)


def _controller(metadata: Json) -> Controller | None:
    for it in metadata.get("ownerReferences", []):
        if it.get("controller"):
            return Controller(it["kind"], it["name"], it["uid"])
    return None
