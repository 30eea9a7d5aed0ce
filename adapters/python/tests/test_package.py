"""The wheel and the sdist install into a clean virtual environment, where the README runs as a new user would run it."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[1]
ROOT = PROJECT.parents[1]
README = (PROJECT / "README.md").read_text()
EXAMPLE = ROOT / "examples/mid-rollout.json"
# An API server whose pods are ready at once, and the loop of a controller.
CLUSTER = [sys.executable, ROOT / "tests/conformance/cluster.py", EXAMPLE]
# The wheel of bindings/python.
LOCAL_WHEELS = ROOT / "target/wheels"
HOME = "https://rollplan.dev/rollplan"
# Not needed by the client of the service.
EXTRAS = {"aiohttp", "kubernetes", "pydantic", "requests", "urllib3"}


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
    for name in ("rollplan/py.typed", "rollplan/v1/plan_pb2.py", "rollplan/v1/plan_pb2.pyi", "rollplan/rollouts.py"):
        assert name in names
        assert name in sources


def test_wheel_has_the_license_project_urls_and_no_relative_links(distributions: Path) -> None:
    [path] = distributions.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        directory = next(it for it in wheel.namelist() if it.endswith("/METADATA")).rpartition("/")[0]
        assert wheel.read(f"{directory}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        metadata = wheel.read(f"{directory}/METADATA").decode()
    assert "License-Expression: Apache-2.0\n" in metadata
    assert f"Project-URL: Source, {HOME}/adapters/python\n" in metadata
    links = re.findall(r"\]\(([^)]*)\)", metadata)
    assert links
    assert [it for it in links if not it.startswith(HOME)] == []


class Environment:
    """A clean virtual environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True)
        self.variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self.variables["PATH"] = f"{directory / 'venv/bin'}:{self.variables['PATH']}"

    def program(self, name: str) -> Path:
        # subprocess searches the path of this process.
        return self.directory / "venv/bin" / name

    def install(self, distribution: Path, extra: str = "") -> set[str]:
        """Installs the package, and returns the names of all packages."""
        # The dependencies of the package itself, at the versions of the lock file.
        locked = (PROJECT / "requirements.lock").read_text()
        constraints = self.directory / "constraints.txt"
        pins = [line.split()[0] for line in locked.splitlines() if "==" in line and not line.startswith((" ", "#"))]
        constraints.write_text("\n".join(pins))
        options = ["-q", "--disable-pip-version-check", "--find-links", LOCAL_WHEELS, "-c", constraints]
        self.run("-m", "pip", "install", *options, f"{distribution}{extra}")
        listed = self.run("-m", "pip", "list", "--disable-pip-version-check", "--format=json").stdout
        return {it["name"] for it in json.loads(listed)}

    def run(self, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [self.program("python"), *arguments]
        options = {"cwd": self.directory, "env": self.variables, "capture_output": True, "text": True, "timeout": 600}
        done = subprocess.run(command, **options, check=False)  # type: ignore[call-overload]
        assert not check or done.returncode == 0, done.stderr
        return done

    def run_examples(self, examples: list[str], address: str) -> str:
        """Runs examples of the README one after the other, and returns their output."""
        code = "\n".join(examples).replace("127.0.0.1:50051", address).replace("timeout=600", "timeout=60, interval=0.05")
        (self.directory / "examples.py").write_text(code)
        return self.run("-W", "error", "examples.py").stdout


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


def write_objects(directory: Path) -> None:
    """The files that the README reads."""
    for name in ("shop.json", "config.json"):
        (directory / name).write_text(EXAMPLE.read_text())


def written(language: str) -> list[str]:
    """The blocks of the README in a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_local_wheel_plans_from_a_file_without_a_service_or_a_compiler(distributions: Path, tmp_path: Path) -> None:
    [wheel] = distributions.glob("*.whl")
    environment = Environment(tmp_path)
    environment.variables |= dict.fromkeys(("CC", "CARGO", "RUSTC"), "false")
    write_objects(tmp_path)
    installed = environment.install(wheel, "[local]")
    assert "rollplan-local" in installed
    assert EXTRAS.isdisjoint(installed)
    assert re.match(r"scale .*\n", environment.run_examples(written("python")[:1], ""))


def test_without_extras_the_sdist_installs_the_client_of_the_service(distributions: Path, tmp_path: Path, address: str) -> None:
    [sdist] = distributions.glob("*.tar.gz")
    environment = Environment(tmp_path)
    write_objects(tmp_path)
    installed = environment.install(sdist)
    assert "rollplan-local" not in installed
    assert EXTRAS.isdisjoint(installed)
    examples = [it.replace("Planner.local()", 'Planner.grpc("127.0.0.1:50051")') for it in written("python")[:4]]
    output = environment.run_examples(examples, address)
    assert re.match(r"scale .*\n", output)
    assert "outlook:" in output
    assert "pip install 'rollplan[kubernetes]'" in environment.run("-c", "from rollplan import Api", check=False).stderr


def test_the_readme_runs_as_written_in_a_clean_environment(distributions: Path, tmp_path: Path, address: str) -> None:
    [wheel] = distributions.glob("*.whl")
    environment = Environment(tmp_path)
    write_objects(tmp_path)
    examples = written("python")
    # The last one is the loop, which runs beside the others.
    assert len(examples) == 11
    *examples, loop = examples
    environment.install(wheel, "[kubernetes,local]")
    cluster = subprocess.Popen(CLUSTER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert cluster.stdout
    write_kubeconfig(cluster.stdout.readline().strip(), tmp_path / "kubeconfig")
    environment.variables["KUBECONFIG"] = str(tmp_path / "kubeconfig")
    (tmp_path / "loop.py").write_text(loop.replace("127.0.0.1:50051", address))
    controller = subprocess.Popen(
        [environment.program("python"), "-W", "error", "loop.py"],
        env=environment.variables,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # The examples may lose a race against the controller, but their calls never break the rollout.
        output = environment.run_examples(examples, address)
    finally:
        controller.terminate()
        _, log = controller.communicate(timeout=30)
        cluster.communicate(timeout=30)
        print(log)  # pytest shows it after a failure
    assert 'deployment "web" successfully rolled out' in output
    assert "CHANGE_EFFECT_SCALE_ONLY" in output
    assert "CANARY_PHASE_REST" in output
    assert "registry.example/web" in output  # what the rollback changes
    assert controller.returncode == -signal.SIGTERM
    assert log == ""
