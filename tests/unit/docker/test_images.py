"""Test the Dockerfile without an engine: it follows the rules, and each rule refuses a wrong Dockerfile."""

import subprocess
import tomllib

import pytest

from tests.tools import compose
from tests.tools.dockerfile import find_violations, is_sent

TEXT = (compose.ROOT / "Dockerfile").read_text()
IGNORE = (compose.ROOT / ".dockerignore").read_text()
PYPROJECT = tomllib.loads((compose.ROOT / "pyproject.toml").read_text())
SELECTIONS = {f"--extra {extra}" for extra in PYPROJECT["project"]["optional-dependencies"]}
SELECTIONS |= {f"--group {group}" for group in PYPROJECT["dependency-groups"]}
BUILDS = [service["build"] for service in compose.load()["services"].values() if "build" in service]
TARGETS = {build["target"] for build in BUILDS if "target" in build}
FILES = [
    compose.ROOT / name for name in ("docker/airflow", "docker/healthy.py", *(p.name for p in compose.ROOT.iterdir()))
]
PATHS = {str(path.relative_to(compose.ROOT)) for path in FILES if path.exists()}


def check(text: str = TEXT, ignore: str = IGNORE, targets: set[str] = TARGETS) -> list[str]:
    """List the violations of the rules, in this repository by default."""
    return find_violations(text, ignore, PATHS, SELECTIONS, targets)


def test_dockerfile_follows_the_rules():
    assert {"airflow", "worker", "pipelines", "drydock"} == TARGETS
    assert check() == []
    assert "training" in TEXT


@pytest.mark.parametrize(
    ("old", "new", "violation"),
    [
        ("python:3.11.13-slim-bookworm", "python:latest", "base: base python:latest is not pinned"),
        ("python:3.11.13-slim-bookworm", "python", "base: base python is not pinned"),
        ("FROM runs AS drydock", "FROM runs AS dock", "no target drydock"),
        ("--extra drydock", "--extra dock", "build-drydock: pyproject.toml has nothing for --extra dock"),
        ("COPY --from=build-drydock", "COPY --from=build-dock", "drydock: no stage build-dock"),
        ("COPY expectations", "COPY expectation", "code: expectation does not exist"),
        ("COPY dags", "COPY tests /opt/leeway/tests\nCOPY dags", "code: tests is ignored"),
        (
            "FROM runs-airflow AS worker",
            "FROM airflow AS worker",
            "worker: an environment is copied after the code",
        ),
        ("USER 10001:10001", "", "airflow: runs as root"),
        ("USER 10001:10001", "USER 0", "worker: runs as root"),
    ],
)
def test_check_finds_a_violation(old, new, violation):
    assert old in TEXT
    assert violation in check(TEXT.replace(old, new))


@pytest.mark.parametrize(
    "path", [".env", ".git", ".leeway", "uv", "tests", "data", "docker/init_env.py", "dags/__pycache__/x.pyc"]
)
def test_engine_does_not_receive_a_file_that_no_image_needs(path):
    assert not is_sent(path, IGNORE)


@pytest.mark.parametrize(
    "path", ["dags/flights_train.py", "docker/airflow/init.sh", "uv.lock", "plugins/leeway/__init__.py"]
)
def test_engine_receives_a_file_that_an_image_needs(path):
    assert is_sent(path, IGNORE)


def test_git_ignores_files_with_secrets():
    # The second is what a killed init_env.py leaves. The last two are backups with their default names.
    for name in (".env", ".env.1234", "leeway-2026-11-22T051524Z.tar", "databases.sql"):
        result = subprocess.run(["git", "check-ignore", name], cwd=compose.ROOT, capture_output=True, text=True)
        assert result.stdout.strip() == name
    assert subprocess.run(["git", "check-ignore", ".env.example"], cwd=compose.ROOT).returncode == 1


@pytest.mark.parametrize(
    "script", ["docker/airflow/init.sh", "docker/postgres/databases.sh", "docker/seaweedfs/start.sh"]
)
def test_shell_script_has_no_syntax_error(script):
    result = subprocess.run(["/bin/sh", "-n", str(compose.ROOT / script)], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
