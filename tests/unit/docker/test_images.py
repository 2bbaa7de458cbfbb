"""The Dockerfile, as far as it can be judged without an engine; each rule has what it refuses."""

import subprocess
import tomllib

import pytest

from tests.tools import compose
from tests.tools.dockerfile import find_violations, is_sent

TEXT = (compose.ROOT / "Dockerfile").read_text()
IGNORE = (compose.ROOT / ".dockerignore").read_text()
GROUPS = set(tomllib.loads((compose.ROOT / "pyproject.toml").read_text())["dependency-groups"])
BUILDS = [one["build"] for one in compose.load()["services"].values() if "build" in one]
TARGETS = {one["target"] for one in BUILDS if "target" in one}
FILES = [
    compose.ROOT / name for name in ("docker/airflow", "docker/healthy.py", *(p.name for p in compose.ROOT.iterdir()))
]
HAS = {str(path.relative_to(compose.ROOT)) for path in FILES if path.exists()}


def told(text: str = TEXT, ignore: str = IGNORE, targets: set[str] = TARGETS) -> list[str]:
    return find_violations(text, ignore, HAS, GROUPS, targets)


def test_it_keeps_the_rules():
    assert {"airflow", "worker", "pipelines", "drydock"} == TARGETS
    assert told() == []
    assert "training" in TEXT


@pytest.mark.parametrize(
    ("old", "new", "breach"),
    [
        ("python:3.11.13-slim-bookworm", "python:latest", "base: base python:latest is not pinned"),
        ("python:3.11.13-slim-bookworm", "python", "base: base python is not pinned"),
        ("FROM runs AS drydock", "FROM runs AS dock", "no target drydock"),
        ("--only-group drydock", "--only-group dock", "build-drydock: no group dock"),
        ("COPY --from=build-drydock", "COPY --from=build-dock", "drydock: no stage build-dock"),
        ("COPY expectations", "COPY expectation", "code: expectation does not exist"),
        ("COPY dags", "COPY tests /opt/leeway/tests\nCOPY dags", "code: tests is ignored"),
        (
            "FROM runs-airflow AS worker",
            "FROM airflow AS worker",
            "worker: an environment lies above the code",
        ),
        ("USER 10001:10001", "", "airflow: runs as root"),
        ("USER 10001:10001", "USER 0", "worker: runs as root"),
    ],
)
def test_breach_is_told(old, new, breach):
    assert old in TEXT
    assert breach in told(TEXT.replace(old, new))


@pytest.mark.parametrize(
    "path", [".env", ".git", ".leeway", "uv", "tests", "data", "docker/init_env.py", "dags/__pycache__/x.pyc"]
)
def test_what_no_image_needs_is_not_sent(path):
    assert not is_sent(path, IGNORE)


@pytest.mark.parametrize(
    "path", ["dags/flights_train.py", "docker/airflow/init.sh", "uv.lock", "plugins/leeway/__init__.py"]
)
def test_what_images_need_is_sent(path):
    assert is_sent(path, IGNORE)


def test_secrets_are_not_committed():
    # The second is what a killed init_env.py leaves; the others are backups, by the name that they have by default.
    for name in (".env", ".env.1234", "leeway-2026-11-22T051524Z.tar", "databases.sql"):
        answer = subprocess.run(["git", "check-ignore", name], cwd=compose.ROOT, capture_output=True, text=True)
        assert answer.stdout.strip() == name
    assert subprocess.run(["git", "check-ignore", ".env.example"], cwd=compose.ROOT).returncode == 1


@pytest.mark.parametrize(
    "script", ["docker/airflow/init.sh", "docker/postgres/databases.sh", "docker/seaweedfs/start.sh"]
)
def test_script_is_a_script(script):
    answer = subprocess.run(["/bin/sh", "-n", str(compose.ROOT / script)], capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (0, "")
