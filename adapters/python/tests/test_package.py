"""The wheel and the sdist install into a clean virtual environment, as a new user would do."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    # The build backend is that of the lock file.
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, PROJECT], check=True, stdout=subprocess.DEVNULL
    )
    return out


def test_both_have_the_types_and_the_generated_code(distributions: Path) -> None:
    [wheel], [sdist] = distributions.glob("*.whl"), distributions.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        root = sdist.name.removesuffix(".tar.gz")
        sources = {name.removeprefix(f"{root}/src/") for name in archive.getnames()}
    for name in ("rollplan/py.typed", "rollplan/v1/plan_pb2.py", "rollplan/v1/plan_pb2.pyi", "rollplan/controller/__main__.py"):
        assert name in names
        assert name in sources


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_installs_into_a_clean_environment(distributions: Path, pattern: str, tmp_path: Path) -> None:
    [distribution] = distributions.glob(pattern)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    # What the package itself asks for, at the versions of the lock file.
    locked = (PROJECT / "requirements.lock").read_text()
    constraints = tmp_path / "constraints.txt"
    pins = [line.split()[0] for line in locked.splitlines() if "==" in line and not line.startswith((" ", "#"))]
    constraints.write_text("\n".join(pins))
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints]
    subprocess.run([*pip, distribution], check=True, env=environment)
    check = "import rollplan, rollplan.v1.service_pb2_grpc; print(rollplan.Rollouts.__name__)"
    done = subprocess.run([python, "-c", check], check=True, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "Rollouts\n"
    controller = [python, "-m", "rollplan.controller", "--help"]
    done = subprocess.run(controller, check=True, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert "--mode" in done.stdout
