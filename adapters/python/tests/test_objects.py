import json

import pytest

from rollplan.objects import DEPLOYMENT, PLANNED_DEPLOYMENT, POD, REPLICA_SET, Key, Object

DEPLOYMENT_TEXT = """{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u",
"resourceVersion":"12","managedFields":[{"manager":"kubectl","time":"2026-11-21T10:00:00Z"}]},
"spec":{"future":{"big":9007199254740993,"ratio":0.1},"template":{}}}"""


def test_json_of_an_owner_has_everything() -> None:
    it = Object.from_text(DEPLOYMENT_TEXT, DEPLOYMENT)
    assert json.loads(it.json) == json.loads(DEPLOYMENT_TEXT)
    assert "9007199254740993" in it.json
    assert (it.key, it.uid, it.version, it.controller) == (Key("shop", "web"), "u", "12", None)


def test_items_of_lists_get_their_kind() -> None:
    meta = {"name": "web-1", "namespace": "shop", "uid": "r", "resourceVersion": "3", "managedFields": []}
    references = [{"kind": "A", "name": "a", "uid": "1"}, {"kind": "Deployment", "name": "web", "uid": "u", "controller": True}]
    it = Object.parse({"metadata": {**meta, "ownerReferences": references}, "spec": {}}, REPLICA_SET)
    found = json.loads(it.json)
    assert found["kind"] == "ReplicaSet"
    assert "managedFields" not in found["metadata"]
    assert it.controller
    assert (it.controller.kind, it.controller.name, it.controller.uid) == ("Deployment", "web", "u")


def test_pods_are_trimmed() -> None:
    meta = {"name": "p", "namespace": "shop", "uid": "p", "resourceVersion": "3"}
    it = Object.parse({"metadata": meta, "spec": {"containers": []}, "status": {"phase": "Running"}}, POD)
    assert json.loads(it.json) == {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (DEPLOYMENT.path("shop", "web"), "/apis/apps/v1/namespaces/shop/deployments/web"),
        (REPLICA_SET.path("shop"), "/apis/apps/v1/namespaces/shop/replicasets"),
        (POD.path(), "/api/v1/pods"),
        (PLANNED_DEPLOYMENT.path("a"), "/apis/apps.rollplan.dev/v1alpha1/namespaces/a/planneddeployments"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected
