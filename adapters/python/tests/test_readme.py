"""The examples of the README run as they are written, one after the other."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest
import yaml
from cluster import ROOT, Cluster

from rollplan import Api, Key, Planner, Rollouts

README = Path(__file__).resolve().parents[1] / "README.md"
EXAMPLE = ROOT / "examples/mid-rollout.json"


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_examples_run_as_written(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(json.loads(EXAMPLE.read_text())["items"])
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": cluster.url}}],
        "users": [{"name": "test", "user": {"token": "secret"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    (tmp_path / "shop.json").write_text(EXAMPLE.read_text())
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.chdir(tmp_path)

    stop = threading.Event()
    planner = Planner.grpc(address)

    def control() -> None:  # the controller of the cluster
        rollouts = Rollouts(planner, Api.from_config())
        while not stop.wait(0.05):
            rollouts.sync(Key("shop", "web"))

    controller = threading.Thread(target=control)
    controller.start()
    names: dict[str, object] = {}
    found = examples()
    assert len(found) == 6
    try:
        for example in found:
            if "rollouts.plan(" in example:  # for clusters without another controller
                stop.set()
                controller.join()
            code = example.replace("127.0.0.1:50051", address).replace("timeout=600", "timeout=60, interval=0.05")
            exec(compile(code, README, "exec"), names)
    finally:
        stop.set()
        controller.join()
        planner.close()
        cluster.close()
    printed = capsys.readouterr().out
    assert 'deployment "web" is rolling out' in printed
    assert "registry.example/web" in printed  # what the rollback changes
    assert names["failures"] == []
    assert "outlook:" in printed
