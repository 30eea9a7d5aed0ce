import json

import pytest

from rollplan.objects import DEPLOYMENT, PLANNED_DEPLOYMENT, POD, REPLICA_SET, Key, Object

DEPLOYMENT_TEXT = """{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u",
"resourceVersion":"12","managedFields":[
  {"manager":"kube-controller-manager","subresource":"status","time":"2026-11-20T10:00:00Z"},
  {"manager":"kube-controller-manager","subresource":"status","time":"2026-11-20T09:00:00Z"},
  {"manager":"kubectl","time":"2026-11-21T10:00:00Z"}]},
"spec":{"strategy":{"type":"Recreate"},"future":{"big":9007199254740993,"ratio":0.1},"selector":{"matchLabels":{"app":"web"},
"matchExpressions":[{"key":"tier","operator":"In","values":["a","b"]},{"key":"x","operator":"NotIn","values":["c"]},
{"key":"y","operator":"Exists"},{"key":"z","operator":"DoesNotExist"}]},"template":{}}}"""


def test_json_keeps_everything_but_managed_fields() -> None:
    it = Object.from_text(DEPLOYMENT_TEXT, DEPLOYMENT)
    expected = json.loads(DEPLOYMENT_TEXT)
    del expected["metadata"]["managedFields"]
    assert json.loads(it.json) == expected
    assert "9007199254740993" in it.json


def test_fields_of_a_deployment_are_read() -> None:
    it = Object.from_text(DEPLOYMENT_TEXT, DEPLOYMENT)
    assert (it.key, it.uid, it.version, it.recreate) == (Key("shop", "web"), "u", 12, True)
    assert it.selector == "app=web,tier in (a,b),x notin (c),y,!z"
    assert it.native_status_write == "2026-11-20T10:00:00Z"
    assert it.controller is None
    assert not it.deleting


def test_items_of_lists_get_their_kind() -> None:
    meta = {"name": "web-1", "namespace": "shop", "uid": "r", "resourceVersion": "3", "deletionTimestamp": "now"}
    references = [{"kind": "A", "name": "a", "uid": "1"}, {"kind": "Deployment", "name": "web", "uid": "u", "controller": True}]
    it = Object.parse({"metadata": {**meta, "ownerReferences": references}, "spec": {}}, REPLICA_SET)
    assert json.loads(it.json)["kind"] == "ReplicaSet"
    assert it.controller
    assert (it.controller.kind, it.controller.name, it.controller.uid) == ("Deployment", "web", "u")
    assert it.deleting


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
