"""Test docker-compose.yaml: it follows the rules, and each rule refuses a wrong file."""

import copy
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.tools import compose
from tests.tools.compose_rules import find_violations


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    """Return the content of docker-compose.yaml; its variables are not replaced."""
    return compose.load()


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables that `make compose-init` writes."""
    path = tmp_path_factory.mktemp("env") / ".env"
    subprocess.run([sys.executable, str(compose.ROOT / "docker" / "init_env.py"), str(path)], check=True)
    return compose.read_env(path)


def test_file_follows_the_rules(content):
    assert find_violations(content) == []


PASSWORD = ("postgres", "environment", "POSTGRES_PASSWORD")
ANY_ADDRESS = "0.0.0.0:5000:5000"


def set_value(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that sets a value in the services of a file."""

    def change(content: dict[str, Any]) -> None:
        node = content["services"]
        for name in path[:-1]:
            node = node[name]
        node[path[-1]] = value

    return change


def delete(*path: str) -> Callable[[dict[str, Any]], None]:
    """Return a function that deletes a value from the services of a file."""

    def change(content: dict[str, Any]) -> None:
        node = content["services"]
        for name in path[:-1]:
            node = node[name]
        del node[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (delete("redis", "healthcheck"), "redis: no health check"),
        (set_value("worker", "healthcheck", value={"disable": True}), "worker: no health check"),
        (delete("mlflow", "deploy"), "mlflow: no limit of cores and memory"),
        (set_value("s3", "deploy", "resources", "limits", value={"cpus": "1"}), "s3: no limit of cores and memory"),
        (
            set_value("worker", "deploy", "resources", "limits", "cpus", value="4"),
            "worker: needs a machine with 4 cores",
        ),
        (delete("scheduler", "restart"), "scheduler: restart is not unless-stopped"),
        (set_value("init", "restart", value="always"), "init: restart is not on-failure"),
        (delete("postgres", "user"), "postgres: runs as root, or names no user"),
        (set_value("worker", "user", value="0:0"), "worker: runs as root, or names no user"),
        (set_value("drydock", "privileged", value=True), "drydock: has capabilities"),
        (delete("drydock", "cap_drop"), "drydock: has capabilities"),
        (delete("drydock", "security_opt"), "drydock: may gain privileges"),
        (set_value("mlflow", "read_only", value=False), "mlflow: may write to its image"),
        (set_value("mlflow", "ports", value=["5000:5000"]), "mlflow: port 5000:5000 is published beyond loopback"),
        (set_value("mlflow", "ports", value=[ANY_ADDRESS]), f"mlflow: port {ANY_ADDRESS} is published beyond loopback"),
        (set_value("mlflow", "networks", value=["data"]), "mlflow: publishes a port from an internal network"),
        (set_value("mlflow", "network_mode", value="host"), "mlflow: has the host's network"),
        (set_value("redis", "image", value="redis"), "redis: image redis is not pinned"),
        (set_value("redis", "image", value="redis:latest"), "redis: image redis:latest is not pinned"),
        (set_value("redis", "image", value="redis:7"), "redis: image redis:7 is not pinned"),
        (set_value(*PASSWORD, value="hunter2"), "postgres: POSTGRES_PASSWORD is a literal value"),
        (
            set_value(*PASSWORD, value="${POSTGRES_PASSWORD:-hunter2}"),
            "postgres: POSTGRES_PASSWORD is a literal value",
        ),
        (
            set_value("mlflow", "environment", "MLFLOW_BACKEND_STORE_URI", value="postgresql://mlflow:hunter2@postgres/mlflow"),
            "mlflow: MLFLOW_BACKEND_STORE_URI is a literal value",
        ),
        (
            set_value("redis", "command", value=["redis-cli", "-u", "redis://:x@redis"]),
            "redis: its command has a password",
        ),
        (set_value("redis", "command", value=["x", "${REDIS_PASSWORD:?no}"]), "redis: its command has a password"),
        (
            set_value("redis", "healthcheck", "test", value=["CMD", "redis-cli", "-a", "${REDIS_PASSWORD:?no}"]),
            "redis: its command has a password",
        ),
        (delete("docs", "networks"), "docs: is on the default network"),
        (set_value("docs", "networks", value=["missing"]), "docs: network missing does not exist"),
        (set_value("docs", "volumes", value=["other:/x"]), "docs: volume other does not exist"),
        (set_value("docs", "volumes", value=["./docs:/x"]), "docs: may write to the host's ./docs"),
        (set_value("drydock", "volumes", value=["/var/run/docker.sock:/s:ro"]), "drydock: mounts the engine's socket"),
        (set_value("scheduler", "depends_on", value=["postgres"]), "scheduler: does not wait until postgres is ready"),
        (
            set_value("scheduler", "depends_on", "init", "condition", value="service_started"),
            "scheduler: does not wait until init is ready",
        ),
        (
            set_value("scheduler", "depends_on", "postgres", "condition", value="service_completed_successfully"),
            "scheduler: does not wait until postgres is ready",
        ),
        (set_value("docs", "depends_on", "x", value={}), "docs: depends on x, which does not exist"),
        (
            set_value("docs", "depends_on", "redis", value={"condition": "service_healthy"}),
            "docs: depends on redis, which exists only in a profile",
        ),
    ],
)  # fmt: skip
def test_rule_finds_a_violation(content, change, message):
    changed = copy.deepcopy(content)
    change(changed)
    assert message in find_violations(changed)


def test_drydock_reaches_no_database(content):
    assert content["services"]["drydock"]["networks"] == ["jobs"]
    assert "jobs" not in content["services"]["postgres"]["networks"]
    networks = content["networks"]
    assert [name for name in networks if not (networks[name] or {}).get("internal")] == ["outside"]


STEP_SECRETS = ("LAKE_DB_PASSWORD", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY")


def find_holders(env: dict[str, str]) -> set[str]:
    """Return the services that have a secret of the steps in their environment."""
    services = compose.load(env)["services"].items()
    secrets = [env[name] for name in STEP_SECRETS]
    return {name for name, value in services for secret in secrets if secret in str(value.get("environment"))}


def test_no_service_of_airflow_has_the_secrets_of_the_steps(env):
    """Steps get them from connections in Airflow's database, which `init` stores there."""
    assert find_holders(env) == {"init", "postgres", "s3", "mlflow", "drydock", "pipelines", "status", "model-metrics"}
    variables = compose.load(env)["services"]["worker"]["environment"]
    assert (variables["LEEWAY_AWS_CONN_ID"], variables["LEEWAY_LAKE_CONN_ID"]) == ("aws_default", "lake")


@pytest.mark.parametrize("name", ["worker", "scheduler-local", "triggerer", "dag-processor"])
def test_service_that_sends_notifications_reaches_the_internet(content, name):
    """The DAG processor is one: it runs on_failure_callback of a task that was lost with its worker."""
    assert "outside" in content["services"][name]["networks"]


def test_every_image_of_this_project_is_built(content):
    """A client pulls an image without `build` from Docker Hub, where anybody can own its name."""
    services = content["services"].items()
    assert [name for name, value in services if value["image"].startswith("leeway/") and "build" not in value] == []


def test_limits_of_drydock_follow_the_resources_of_its_jobs(env):
    drydock = compose.load({**env, "DRYDOCK_CORES": "3", "DRYDOCK_MEMORY_GIB": "12"})["services"]["drydock"]
    assert drydock["environment"]["DRYDOCK_MEMORY_GIB"] == "12"
    assert drydock["deploy"]["resources"]["limits"] == {"cpus": "3", "memory": "12G"}


@pytest.mark.parametrize(
    ("profile", "executor"), [("celery", "CeleryExecutor"), ("local", "leeway.executor.RestartableLocalExecutor")]
)
def test_each_profile_has_one_scheduler_of_its_executor(content, env, profile, executor):
    services = compose.load(env)["services"].values()
    members = [service for service in services if profile in service.get("profiles", [profile])]
    (scheduler,) = [service for service in members if service["command"][:2] == ["airflow", "scheduler"]]
    assert scheduler["environment"]["AIRFLOW__CORE__EXECUTOR"] == executor
    assert scheduler["depends_on"]["api-server"] == {"condition": "service_healthy"}


def test_init_writes_every_variable_without_a_default(env):
    assert compose.load(env)["services"]["redis"]["environment"] == {"REDISCLI_AUTH": env["REDIS_PASSWORD"]}
    for name in env:
        assert name in compose.FILE.read_text() or name == "COMPOSE_PROFILES"


def test_every_variable_has_its_own_line_in_the_example(env):
    """A reader uncomments a whole line: a second variable in it would become part of the first one's value."""
    used = {match[1] for match in compose.VARIABLE_PATTERN.finditer(compose.FILE.read_text()) if match[1]}
    lines = (compose.ROOT / ".env.example").read_text().splitlines()
    entries = [match for line in lines if (match := re.fullmatch(r"(?:# )?([A-Z]\w*)=([^\s#]*)(?:\s+# .*)?", line))]
    assert sorted(used - {match[1] for match in entries}) == []
    assert [line for line in lines if re.match(r"(# )?[A-Z]\w*=", line)] == [match[0] for match in entries]
    assert not [match[0] for match in entries if match[1] in env and match[1] != "COMPOSE_PROFILES" and match[2]]


def test_redis_requires_its_password_and_no_command_shows_it(env, tmp_path, free_port, until):
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is missing: apt-get install redis-server")
    service, port = compose.load(env)["services"]["redis"], str(free_port())
    password = env["REDIS_PASSWORD"]
    assert not any(password in word for word in service["command"])
    command = [word.replace("/data", str(tmp_path)) for word in service["command"]]
    command += ["--port", port, "--bind", "127.0.0.1"]
    server = subprocess.Popen(command, env={**os.environ, **service["environment"]}, stdout=subprocess.DEVNULL)

    def ping(**variables: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "REDISCLI_AUTH"} | variables
        command = ["redis-cli", "-u", f"redis://127.0.0.1:{port}", "ping"]
        return subprocess.run(command, env=environment, capture_output=True, text=True).stdout

    try:
        until(lambda: "PONG" in ping(REDISCLI_AUTH=password), 30)
        assert "NOAUTH" in ping()
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.parametrize("name", ["REDIS_PASSWORD", "AIRFLOW_FERNET_KEY", "AIRFLOW_ADMIN_PASSWORD"])
def test_missing_secret_is_refused(env, name):
    with pytest.raises(compose.MissingVariableError, match=f"{name}: run make compose-init"):
        compose.load({key: value for key, value in env.items() if key != name})


def find_client() -> list[str]:
    """Return the command of this machine's Compose client, or an empty list."""
    if shutil.which("docker") and not subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        return ["docker", "compose"]
    return [path] if (path := shutil.which("docker-compose")) else []


def test_compose_client_reads_the_file_as_these_tests_do(env, tmp_path):
    if not find_client():
        pytest.skip("a Compose client is missing: apt-get install docker-compose")
    path = tmp_path / ".env"
    path.write_text("".join(f"{name}={value}\n" for name, value in env.items()))
    command = [*find_client(), "--env-file", str(path), "--file", str(compose.FILE), "config"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=compose.ROOT)
    assert result.returncode == 0, result.stderr
    services = yaml.safe_load(result.stdout)["services"]
    expected = compose.load(env)["services"]
    names = {name for name, service in expected.items() if "local" not in service.get("profiles", [])}
    assert names <= set(services)
    for name in names:
        variables = services[name].get("environment") or {}
        assert {key: str(value) for key, value in variables.items()} == {
            key: str(value) for key, value in (expected[name].get("environment") or {}).items()
        }


def test_compose_client_refuses_the_file_without_the_secrets(tmp_path):
    if not find_client():
        pytest.skip("a Compose client is missing: apt-get install docker-compose")
    (tmp_path / ".env").write_text("")
    command = [*find_client(), "--env-file", str(tmp_path / ".env"), "--file", str(compose.FILE), "config"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=compose.ROOT)
    assert result.returncode != 0
    assert "run make compose-init" in result.stderr
