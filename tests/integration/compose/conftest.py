"""Run docker-compose.yaml without Docker: each service by its command in the file, on free ports of loopback.

PostgreSQL and Redis are the programs that this machine has. No package index has SeaweedFS, so a second drydock serves
S3.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest
import requests

from tests.tools import compose, slim
from tests.tools.groups import end_group

DAGS = Path(__file__).parent / "dags"
START_ORDER = [
    *("postgres", "redis", "s3", "init", "mlflow", "drydock", "docs", "status"),
    *("api-server", "scheduler", "dag-processor", "triggerer", "worker"),
]
"""All services but those of monitoring, each after the services that it depends on."""
SLIM_SERVICES = {"init", "api-server", "scheduler", "dag-processor", "triggerer", "worker"}
"""Services whose image has no ML libraries."""
PORTS = {
    "postgres": 5432, "redis": 6379, "s3": 8333, "mlflow": 5000, "drydock": 5005, "docs": 8000, "api-server": 8080,
    "scheduler": 8974,
}  # fmt: skip
ENV_SETTINGS = {
    "AIRFLOW_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW_API_WORKERS": "1",
    "MLFLOW_WORKERS": "1",
    "WORKER_CONCURRENCY": "2",
}
"""Variables of .env that differ from their defaults."""
SHORT_INTERVALS = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
}
"""Settings that make Airflow check more often than by default, and find its hostname without DNS."""


def find_program(name: str, package: str) -> str:
    """Return the path of a system program; skip the test where it is missing."""
    paths = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}")) or [Path(shutil.which(name) or "")]
    if not paths[-1].is_file():
        pytest.skip(f"{name} is missing: apt-get install {package}")
    return str(paths[-1])


class Stack:
    """Run the services of docker-compose.yaml as processes."""

    def __init__(self, folder: Path, free_port: Callable[[], int], until: Callable[..., Any]) -> None:
        self.folder, self.until = folder, until
        env = folder / ".env"
        subprocess.run([sys.executable, str(compose.ROOT / "docker/init_env.py"), str(env)], check=True)
        self.secrets = compose.read_env(env)
        self.services = compose.load(self.secrets | ENV_SETTINGS)["services"]
        self.ports = {(name, port): free_port() for name, port in PORTS.items()}
        self.translator = compose.LocalTranslator(self.services, self.ports, self._make_folders())
        self.site = slim.write_site(folder / "site", "airflow")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.restarted: list[str] = []
        self.token = ""
        self.stopped: set[str] = set()
        """Services that a test has stopped. All others are started again when they end, by their restart policy."""

    def _make_folders(self) -> dict[str, str]:
        """Make the folders of the volumes. Return the local path of each path in a container."""
        for name in ("airflow/passwords", "airflow/logs", "leeway", "drydock", "seaweedfs", "redis"):
            (self.folder / "var" / name).mkdir(parents=True)
        return {
            "/opt/leeway/dags": str(DAGS),
            "/opt/leeway": str(compose.ROOT),
            "/opt/pipelines/bin/python": str(slim.write_interpreter(self.folder, "pipelines")),
            "/opt/drydock/bin/python": str(slim.write_interpreter(self.folder, "drydock")),
            "/var/lib": str(self.folder / "var"),
            "/data": str(self.folder / "var/redis"),
        }

    def get_url(self, service: str) -> str:
        """Return the address of a service."""
        return f"http://127.0.0.1:{self.ports[service, PORTS[service]]}"

    def start(self, service: str) -> None:
        """Start a service and wait until it is healthy; the service init has to end with exit code 0."""
        child = self._start_process(service)
        if service == "init":
            assert child.wait() == 0, self.read_log(service)
            return
        deadline = time.monotonic() + 120
        while child.poll() is None and not self.is_healthy(service):
            assert time.monotonic() < deadline, f"{service}: {self.health_output}\n{self.read_log(service)}"
            time.sleep(0.3)  # each check starts a process
        assert child.poll() is None, self.read_log(service)

    def _start_process(self, service: str) -> subprocess.Popen[bytes]:
        command, env = self._build_command(service), self._build_environment(service)
        user_options = self._build_user_options(service)
        options: dict[str, Any] = {"env": env, "cwd": self.folder, "stdin": subprocess.DEVNULL, **user_options}
        with (self.folder / f"{service}.log").open("ab") as log:
            child = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **options)
        self.processes[service] = child
        self.stopped.discard(service)
        return child

    def wait_until(self, condition: Callable[[], Any], timeout_s: float = 300.0) -> Any:
        """Wait until a condition is true, and return its value. Restart services that end, as Docker would.

        A failed request in the condition counts as false.
        """

        def check() -> Any:
            for service, child in list(self.processes.items()):
                policy = str(self.services[service]["restart"])
                if child.poll() is not None and service not in self.stopped and policy == "unless-stopped":
                    self.restarted.append(service)
                    end_group(child)
                    self._start_process(service)
            time.sleep(0.2)
            with contextlib.suppress(requests.RequestException):
                return condition()

        return self.until(check, timeout_s)

    def is_healthy(self, service: str) -> bool:
        """Run the health check that docker-compose.yaml gives the service, and return whether it passes."""
        if service == "s3":  # drydock's health page has another path than SeaweedFS's
            url = f"{self.get_url(service)}/drydock/health"
            command = [sys.executable, str(compose.ROOT / "docker/healthy.py"), url]
        else:
            command = self._use_local_programs(service, self.translator.translate_healthcheck(service))
        env = self._build_environment(service)
        result = subprocess.run(command, env=env, cwd=self.folder, capture_output=True, text=True)
        self.health_output = result.stdout + result.stderr
        return result.returncode == 0

    def kill(self, service: str) -> None:
        """Send SIGKILL to a service and to all processes that it started, as if its container were gone."""
        self.stopped.add(service)
        child = self.processes[service]
        descendants = psutil.Process(child.pid).children(recursive=True) if child.poll() is None else []
        processes: list[subprocess.Popen[bytes] | psutil.Process] = [child, *descendants]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                process.send_signal(signal.SIGKILL)
        end_group(child)

    def stop(self, service: str) -> None:
        """Stop a service as `docker compose stop` does."""
        self.stopped.add(service)
        child = self.processes[service]
        child.send_signal(getattr(signal, self.services[service].get("stop_signal", "SIGTERM")))
        child.wait(120)

    def read_log(self, service: str) -> str:
        """Return the end of a service's log."""
        return (self.folder / f"{service}.log").read_text(errors="replace")[-4_000:]

    def _use_local_programs(self, service: str, command: list[str]) -> list[str]:
        """Replace the program of a container's command by this machine's program."""
        name, *arguments = command
        if name in ("airflow", "celery"):
            return [sys.executable, "-m", name, *arguments]
        if name == "python":
            return [sys.executable, *arguments]
        if name in ("pg_isready", "postgres"):
            return [find_program(name, "postgresql"), *arguments]
        return [find_program(name, name) if name == "redis-server" else name, *arguments]

    def _build_command(self, service: str) -> list[str]:
        port = str(self.ports.get((service, PORTS.get(service, 0)), 0))
        if service == "s3":
            python, folder = (self.translator.paths[path] for path in ("/opt/drydock/bin/python", "/var/lib"))
            return [python, "-m", "drydock", "--port", port, "--data", f"{folder}/seaweedfs"]
        command = self._use_local_programs(service, self.translator.translate_command(service))
        if service == "postgres":
            sockets = ("-c", f"unix_socket_directories={self.postgres}", "-c", "fsync=off")
            return [*command, "-D", f"{self.postgres}/data", "-c", "listen_addresses=127.0.0.1", "-p", port, *sockets]
        if service == "docs":
            return [port if word == "8000" else word for word in command]
        return [*command, "--bind", "127.0.0.1", "--port", port] if service == "redis" else command

    def _build_environment(self, service: str) -> dict[str, str]:
        names = ("HOME", "LANG", "TMPDIR", "MLFLOW_DISABLE_TELEMETRY")
        inherited_variables = {name: os.environ[name] for name in names if name in os.environ}
        import_folders = [str(self.site)] if service in SLIM_SERVICES else []
        import_folders += [str(compose.ROOT), str(compose.ROOT / "plugins")]
        env = {
            **inherited_variables,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(import_folders),
            **self.translator.translate_environment(service),
        }
        if service == "mlflow":  # not translated: this variable names hosts of the containers' network
            env["MLFLOW_SERVER_ALLOWED_HOSTS"] = self.services[service]["environment"]["MLFLOW_SERVER_ALLOWED_HOSTS"]
        if service in SLIM_SERVICES:
            env |= {"AIRFLOW_HOME": str(self.folder / "airflow"), **SHORT_INTERVALS}
        ports = {
            "api-server": "AIRFLOW__API__PORT",
            "scheduler": "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT",
            "mlflow": "MLFLOW_PORT",
            "drydock": "DRYDOCK_PORT",
            "postgres": "PGPORT",
        }
        if service in ports:
            env[ports[service]] = str(self.ports[service, PORTS[service]])
        return env

    def _build_user_options(self, service: str) -> dict[str, Any]:
        if service == "postgres" and os.getuid() == 0:
            return {"user": "nobody", "group": "nogroup", "extra_groups": [], "cwd": self.postgres}
        return {}

    @contextlib.contextmanager
    def run_cluster(self) -> Iterator[None]:
        """Run the block with an empty PostgreSQL cluster, made as the image makes it, with the password of .env."""
        # PostgreSQL does not run as root, and other users cannot enter tmp_path.
        self.postgres = Path(tempfile.mkdtemp(prefix="leeway-pg-", dir="/tmp"))
        try:
            password_file = self.postgres / "password"
            password_file.write_text(self.secrets["POSTGRES_PASSWORD"])
            if user := self._build_user_options("postgres"):
                shutil.chown(self.postgres, "nobody", "nogroup")
                shutil.chown(password_file, "nobody", "nogroup")
            command = [find_program("initdb", "postgresql"), "-D", f"{self.postgres}/data", "-U", "postgres"]
            command += ["-A", "scram-sha-256", "--pwfile", str(password_file), "--no-sync", "--locale=C.UTF-8"]
            subprocess.run(command, check=True, capture_output=True, **({"cwd": self.postgres} | user))
            yield
        finally:
            shutil.rmtree(self.postgres)

    def make_databases(self) -> None:
        """Run the script that the service `postgres` mounts, as the image of PostgreSQL does at its first start."""
        (mount,) = [volume for volume in self.services["postgres"]["volumes"] if "initdb.d" in volume]
        login = {"PGHOST": "127.0.0.1", "PGPASSWORD": self.secrets["POSTGRES_PASSWORD"]}
        env = self._build_environment("postgres") | login
        script = str(compose.ROOT / mount.split(":")[0])
        subprocess.run(["/bin/sh", script], env=env, check=True, capture_output=True)

    def end(self) -> None:
        """Kill all services."""
        for service in reversed(list(self.processes)):
            self.kill(service)

    def call_api(self, method: str, path: str, **options: Any) -> Any:
        """Call Airflow's API as the admin, and return the response's JSON."""
        return self.call(method, f"/api/v2{path}", **options)

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Call an address of Airflow's server as the admin, and return the response's JSON."""
        self.token = self.token or self._log_in()
        headers = {"Authorization": f"Bearer {self.token}"}
        response = requests.request(
            method, f"{self.get_url('api-server')}{path}", headers=headers, timeout=180, **options
        )
        response.raise_for_status()
        return response.json() if response.content else None

    def _log_in(self) -> str:
        login = {"username": "admin", "password": self.secrets["AIRFLOW_ADMIN_PASSWORD"]}
        response = requests.post(f"{self.get_url('api-server')}/auth/token", json=login, timeout=180)
        return str(response.json()["access_token"])

    def create_client(self, service: str, server: str = "drydock") -> Any:
        """Return a client of an AWS service of drydock, or of another server."""
        names = ("S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY")
        key, secret = (self.secrets[name] for name in names)
        options = {"aws_access_key_id": key, "aws_secret_access_key": secret, "region_name": "us-east-1"}
        return boto3.client(service, endpoint_url=self.get_url(server), **options)

    def run_step(self, *arguments: str) -> Any:
        """Run a step as a person does: `docker compose run pipelines STEP`."""
        python, *module = self.services["pipelines"]["entrypoint"]
        return subprocess.run(
            [self.translator.translate(python, "pipelines"), *module, *arguments],
            env=self._build_environment("pipelines"), cwd=compose.ROOT, capture_output=True, text=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], until: Callable[..., Any]
) -> Iterator[Stack]:
    """Start all services of the profile celery, and return the stack."""
    for name, package in (("initdb", "postgresql"), ("redis-server", "redis-server"), ("redis-cli", "redis-tools")):
        find_program(name, package)
    stack = Stack(tmp_path_factory.mktemp("compose"), free_port, until)
    with stack.run_cluster():
        try:
            for service in START_ORDER:
                stack.start(service)
                if service == "postgres":
                    stack.make_databases()
            yield stack
        finally:
            stack.end()
