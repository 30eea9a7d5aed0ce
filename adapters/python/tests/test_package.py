"""The wheel and the sdist install into a clean virtual environment, where the README runs as a new user would run it."""

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from cluster import ROOT, Cluster

PROJECT = Path(__file__).resolve().parents[1]
README = (PROJECT / "README.md").read_text()
EXAMPLE = ROOT / "examples/mid-rollout.json"
# Different values than in the README, so that a test neither waits for long nor binds fixed ports.
QUICKLY = ["--native-controller-probe=1s", "--metrics-bind-address=0", "--health-probe-bind-address=0"]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    # The build backend is that of the lock file.
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, PROJECT], check=True, stdout=subprocess.DEVNULL
    )
    return out


def test_wheel_and_sdist_contain_types_and_generated_code(distributions: Path) -> None:
    [wheel], [sdist] = distributions.glob("*.whl"), distributions.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        root = sdist.name.removesuffix(".tar.gz")
        sources = {name.removeprefix(f"{root}/src/") for name in archive.getnames()}
    for name in ("rollplan/py.typed", "rollplan/v1/plan_pb2.py", "rollplan/v1/plan_pb2.pyi", "rollplan/controller/__main__.py"):
        assert name in names
        assert name in sources


def install(distribution: Path, directory: Path) -> dict[str, str]:
    """Installs into a clean virtual environment, and returns the environment of its programs."""
    subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PATH"] = f"{directory / 'venv/bin'}:{environment['PATH']}"
    # The dependencies of the package itself, at the versions of the lock file.
    locked = (PROJECT / "requirements.lock").read_text()
    constraints = directory / "constraints.txt"
    pins = [line.split()[0] for line in locked.splitlines() if "==" in line and not line.startswith((" ", "#"))]
    constraints.write_text("\n".join(pins))
    pip = ["python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints]
    subprocess.run([directory / "venv/bin/python", *pip[1:], distribution], check=True, env=environment)
    return environment


def write_kubeconfig(server: str, file: Path) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": {"token": "secret"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    file.write_text(yaml.safe_dump(config))


def written(language: str) -> list[str]:
    """The blocks of the README in a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_the_readme_runs_as_written_in_a_clean_environment(
    distributions: Path, pattern: str, tmp_path: Path, address: str
) -> None:
    [distribution] = distributions.glob(pattern)
    environment = install(distribution, tmp_path)
    examples = written("python")
    assert len(examples) == 6
    [command] = [it for it in written("sh") if "rollplan.controller" in it]
    cluster = Cluster(json.loads(EXAMPLE.read_text())["items"])
    write_kubeconfig(cluster.url, tmp_path / "kubeconfig")
    (tmp_path / "shop.json").write_text(EXAMPLE.read_text())
    environment["KUBECONFIG"] = str(tmp_path / "kubeconfig")
    program, *arguments = shlex.split(command.replace("127.0.0.1:50051", address))
    # Of the clean environment: subprocess searches the path of this process.
    controller = subprocess.Popen(
        [tmp_path / "venv/bin" / program, *arguments, *QUICKLY],
        env=environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # The examples may lose a race against the controller, but their calls never break the rollout.
        code = "\n".join(examples).replace("127.0.0.1:50051", address).replace("timeout=600", "timeout=60, interval=0.05")
        (tmp_path / "examples.py").write_text(code)
        done = subprocess.run(
            [tmp_path / "venv/bin/python", "-W", "error", "examples.py"],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        controller.terminate()
        _, log = controller.communicate(timeout=30)
        cluster.close()
    assert done.returncode == 0, done.stderr + log
    assert 'deployment "web" successfully rolled out' in done.stdout
    assert "registry.example/web" in done.stdout  # what the rollback changes
    assert "outlook:" in done.stdout
    assert controller.returncode == 0, log
    assert "The native Deployment controller is not running" in log
    script = subprocess.run(
        [tmp_path / "venv/bin/rollplan-controller-python", "--help"],
        check=True,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "--native-controller-probe" in script.stdout
