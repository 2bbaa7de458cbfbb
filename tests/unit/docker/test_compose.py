"""docker-compose.yaml is what it has to be; each rule has the file that it refuses."""

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
def written() -> dict[str, Any]:
    return compose.load()


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What `make compose-init` writes."""
    path = tmp_path_factory.mktemp("env") / ".env"
    subprocess.run([sys.executable, str(compose.ROOT / "docker" / "init_env.py"), str(path)], check=True)
    return compose.read_env(path)


def test_it_keeps_the_rules(written):
    assert find_violations(written) == []


def put(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        node = content["services"]
        for name in path[:-1]:
            node = node[name]
        node[path[-1]] = value

    return change


DATABASE = ("postgres", "environment", "POSTGRES_PASSWORD")
ANY = "0.0.0.0:5000:5000"


def drop(*path: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        node = content["services"]
        for name in path[:-1]:
            node = node[name]
        del node[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (drop("redis", "healthcheck"), "redis: no health check"),
        (put("worker", "healthcheck", value={"disable": True}), "worker: no health check"),
        (drop("mlflow", "deploy"), "mlflow: no limit of cores and memory"),
        (put("s3", "deploy", "resources", "limits", value={"cpus": "1"}), "s3: no limit of cores and memory"),
        (
            put("worker", "deploy", "resources", "limits", "cpus", value="4"),
            "worker: needs a machine with 4 cores",
        ),
        (drop("scheduler", "restart"), "scheduler: restart is not unless-stopped"),
        (put("init", "restart", value="always"), "init: restart is not on-failure"),
        (drop("postgres", "user"), "postgres: runs as root, or names no user"),
        (put("worker", "user", value="0:0"), "worker: runs as root, or names no user"),
        (put("drydock", "privileged", value=True), "drydock: has capabilities"),
        (drop("drydock", "cap_drop"), "drydock: has capabilities"),
        (drop("drydock", "security_opt"), "drydock: may gain privileges"),
        (put("mlflow", "read_only", value=False), "mlflow: may write to its image"),
        (put("mlflow", "ports", value=["5000:5000"]), "mlflow: port 5000:5000 is published beyond loopback"),
        (put("mlflow", "ports", value=[ANY]), f"mlflow: port {ANY} is published beyond loopback"),
        (put("mlflow", "networks", value=["data"]), "mlflow: publishes a port from an internal network"),
        (put("mlflow", "network_mode", value="host"), "mlflow: has the host's network"),
        (put("redis", "image", value="redis"), "redis: image redis is not pinned"),
        (put("redis", "image", value="redis:latest"), "redis: image redis:latest is not pinned"),
        (put("redis", "image", value="redis:7"), "redis: image redis:7 is not pinned"),
        (put(*DATABASE, value="hunter2"), "postgres: POSTGRES_PASSWORD is written out"),
        (
            put(*DATABASE, value="${POSTGRES_PASSWORD:-hunter2}"),
            "postgres: POSTGRES_PASSWORD is written out",
        ),
        (
            put("mlflow", "environment", "MLFLOW_BACKEND_STORE_URI", value="postgresql://mlflow:hunter2@postgres/mlflow"),
            "mlflow: MLFLOW_BACKEND_STORE_URI is written out",
        ),
        (put("redis", "command", value=["redis-cli", "-u", "redis://:x@redis"]), "redis: its command has a password"),
        (put("redis", "command", value=["x", "${REDIS_PASSWORD:?no}"]), "redis: its command has a password"),
        (
            put("redis", "healthcheck", "test", value=["CMD", "redis-cli", "-a", "${REDIS_PASSWORD:?no}"]),
            "redis: its command has a password",
        ),
        (drop("docs", "networks"), "docs: is on the default network"),
        (put("docs", "networks", value=["elsewhere"]), "docs: network elsewhere does not exist"),
        (put("docs", "volumes", value=["other:/x"]), "docs: volume other does not exist"),
        (put("docs", "volumes", value=["./docs:/x"]), "docs: may write to the host's ./docs"),
        (put("drydock", "volumes", value=["/var/run/docker.sock:/s:ro"]), "drydock: has the engine's socket"),
        (put("scheduler", "depends_on", value=["postgres"]), "scheduler: does not wait until postgres is ready"),
        (
            put("scheduler", "depends_on", "init", "condition", value="service_started"),
            "scheduler: does not wait until init is ready",
        ),
        (
            put("scheduler", "depends_on", "postgres", "condition", value="service_completed_successfully"),
            "scheduler: does not wait until postgres is ready",
        ),
        (put("docs", "depends_on", "x", value={}), "docs: depends on x, which does not exist"),
        (
            put("docs", "depends_on", "redis", value={"condition": "service_healthy"}),
            "docs: depends on redis, which exists only in a profile",
        ),
    ],
)  # fmt: skip
def test_breach_is_told(written, change, told):
    broken = copy.deepcopy(written)
    change(broken)
    assert told in find_violations(broken)


def test_drydock_reaches_no_database(written):
    assert written["services"]["drydock"]["networks"] == ["jobs"]
    assert "jobs" not in written["services"]["postgres"]["networks"]
    networks = written["networks"]
    assert [name for name in networks if not (networks[name] or {}).get("internal")] == ["outside"]


@pytest.mark.parametrize("name", ["worker", "scheduler-local", "triggerer", "dag-processor"])
def test_who_tells_people_of_a_failure_has_a_way_out(written, name):
    """Of a task that was lost with its worker the DAG processor tells: it runs that task's on_failure_callback."""
    assert "outside" in written["services"][name]["networks"]


def test_no_image_of_ours_is_looked_for_in_a_registry(written):
    """A client asks Docker Hub for what has no `build`, before it builds the others: there the name is anybody's."""
    services = written["services"].items()
    assert [name for name, one in services if one["image"].startswith("leeway/") and "build" not in one] == []


def test_drydock_has_what_its_jobs_may_take(env):
    drydock = compose.load({**env, "DRYDOCK_CORES": "3", "DRYDOCK_MEMORY_GIB": "12"})["services"]["drydock"]
    assert drydock["environment"]["DRYDOCK_MEMORY_GIB"] == "12"
    assert drydock["deploy"]["resources"]["limits"] == {"cpus": "3", "memory": "12G"}


@pytest.mark.parametrize(("profile", "executor"), [("celery", "CeleryExecutor"), ("local", "LocalExecutor")])
def test_each_profile_has_one_scheduler_of_its_executor(written, env, profile, executor):
    services = compose.load(env)["services"].values()
    there = [one for one in services if profile in one.get("profiles", [profile])]
    (scheduler,) = [one for one in there if one["command"][:2] == ["airflow", "scheduler"]]
    assert scheduler["environment"]["AIRFLOW__CORE__EXECUTOR"] == executor


def test_every_variable_without_a_value_is_one_that_init_makes(env):
    assert compose.load(env)["services"]["redis"]["environment"] == {"REDISCLI_AUTH": env["REDIS_PASSWORD"]}
    for name in env:
        assert name in compose.FILE.read_text() or name == "COMPOSE_PROFILES"


def test_every_variable_has_a_line_of_its_own_in_the_example(env):
    """A line that one takes over is for one variable: of two, the second would be the first one's value."""
    used = {match[1] for match in compose.VARIABLE.finditer(compose.FILE.read_text()) if match[1]}
    lines = (compose.ROOT / ".env.example").read_text().splitlines()
    named = [match for line in lines if (match := re.fullmatch(r"(?:# )?([A-Z]\w*)=([^\s#]*)(?:\s+# .*)?", line))]
    assert sorted(used - {match[1] for match in named}) == []
    assert [line for line in lines if re.match(r"(# )?[A-Z]\w*=", line)] == [match[0] for match in named]
    assert not [match[0] for match in named if match[1] in env and match[1] != "COMPOSE_PROFILES" and match[2]]


def test_redis_wants_its_password_and_no_process_shows_it(env, tmp_path, free_port, until):
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server here: apt-get install redis-server")
    service, port = compose.load(env)["services"]["redis"], str(free_port())
    password = env["REDIS_PASSWORD"]
    assert not any(password in one for one in service["command"])
    command = [one.replace("/data", str(tmp_path)) for one in service["command"]]
    command += ["--port", port, "--bind", "127.0.0.1"]
    server = subprocess.Popen(command, env={**os.environ, **service["environment"]}, stdout=subprocess.DEVNULL)

    def ping(**more: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "REDISCLI_AUTH"} | more
        asked = ["redis-cli", "-u", f"redis://127.0.0.1:{port}", "ping"]
        return subprocess.run(asked, env=environment, capture_output=True, text=True).stdout

    try:
        until(lambda: "PONG" in ping(REDISCLI_AUTH=password), 30)
        assert "NOAUTH" in ping()
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.parametrize("name", ["REDIS_PASSWORD", "AIRFLOW_FERNET_KEY", "AIRFLOW_ADMIN_PASSWORD"])
def test_missing_secret_stops_it(env, name):
    with pytest.raises(compose.MissingVariableError, match=f"{name}: run make compose-init"):
        compose.load({key: value for key, value in env.items() if key != name})


def client() -> list[str]:
    """A Compose client of this machine; none where there is none."""
    if shutil.which("docker") and not subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        return ["docker", "compose"]
    return [found] if (found := shutil.which("docker-compose")) else []


def test_a_client_reads_it_as_we_do(env, tmp_path):
    if not client():
        pytest.skip("no Compose client here: apt-get install docker-compose")
    path = tmp_path / ".env"
    path.write_text("".join(f"{name}={value}\n" for name, value in env.items()))
    command = [*client(), "--env-file", str(path), "--file", str(compose.FILE), "config"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=compose.ROOT)
    assert told.returncode == 0, told.stderr
    services = yaml.safe_load(told.stdout)["services"]
    ours = compose.load(env)["services"]
    there = {name for name, one in ours.items() if "local" not in one.get("profiles", [])}
    assert there <= set(services)
    for name in there:
        theirs = services[name].get("environment") or {}
        assert {key: str(value) for key, value in theirs.items()} == {
            key: str(value) for key, value in (ours[name].get("environment") or {}).items()
        }


def test_a_client_refuses_it_without_the_secrets(tmp_path):
    if not client():
        pytest.skip("no Compose client here: apt-get install docker-compose")
    (tmp_path / ".env").write_text("")
    command = [*client(), "--env-file", str(tmp_path / ".env"), "--file", str(compose.FILE), "config"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=compose.ROOT)
    assert told.returncode != 0
    assert "run make compose-init" in told.stderr
