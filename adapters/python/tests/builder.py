"""The builder of objects."""

from __future__ import annotations

from typing import Any

from rollplan import Kind, Object


def build(kind: Kind, name: str = "web", version: int = 10, *, uid: str = "", owner: str = "", **metadata: Any) -> Object:
    """An object with this metadata. `owner` is the UID of the Deployment that controls it."""
    metadata |= {"name": name, "namespace": "shop", "uid": uid or name, "resourceVersion": str(version)}
    if owner:
        metadata["ownerReferences"] = [{"kind": "Deployment", "name": "web", "uid": owner, "controller": True}]
    return Object.parse({"metadata": metadata}, kind)
