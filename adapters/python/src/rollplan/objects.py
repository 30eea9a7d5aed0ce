"""Kubernetes objects in the form of the API server. Only the identifying fields are read. All others are unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
# A field of the status that API servers before Kubernetes 1.35 do not store by default, as it occurs in JSON.
TERMINATING_REPLICAS = '"terminatingReplicas"'


class Controller(NamedTuple):
    """The controller of an object."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class Object:
    """An object, and its JSON without the managed fields."""

    api_version: str
    kind: str
    key: Key
    uid: str
    # The resourceVersion. Of two versions of an object, the newer one has the larger number.
    version: int
    json: str = field(repr=False)
    controller: Controller | None = None
    deleting: bool = False
    # Whether the strategy is Recreate, which needs the pods.
    recreate: bool = False
    # The label selector of an owner, in the form of a query.
    selector: str = ""
    # The time of the last status write by kube-controller-manager, by its clock.
    native_status_write: str = ""

    @classmethod
    def parse(cls, it: Json, kind: Kind) -> Object:
        """Reads an object. Items of lists lack a kind."""
        metadata = dict(it["metadata"])
        managed = metadata.pop("managedFields", [])
        head = {"apiVersion": it.get("apiVersion", kind.api_version), "kind": it.get("kind", kind.kind)}
        spec = it.get("spec", {})
        kept = {**head, **it, "metadata": metadata}
        if kind == POD:
            kept = {**head, "metadata": metadata, "status": it.get("status", {})}
        return cls(
            head["apiVersion"],
            head["kind"],
            Key(metadata.get("namespace", ""), metadata["name"]),
            metadata["uid"],
            int(metadata["resourceVersion"]),
            json.dumps(kept, separators=(",", ":")),
            _controller(metadata),
            "deletionTimestamp" in metadata,
            spec.get("strategy", {}).get("type") == "Recreate",
            _selector(spec.get("selector", {})) if "template" in spec else "",
            _native_status_write(managed),
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


def _selector(selector: Mapping[str, Any]) -> str:
    """A LabelSelector in the form of a query."""
    terms = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    for it in selector.get("matchExpressions", []):
        key, values = it["key"], ",".join(it.get("values", []))
        terms.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[it["operator"]]
        )
    return ",".join(terms)


def _native_status_write(managed: list[Json]) -> str:
    times = [
        str(it.get("time", ""))
        for it in managed
        if it.get("manager") == "kube-controller-manager" and it.get("subresource") == "status"
    ]
    return max(times, default="")
