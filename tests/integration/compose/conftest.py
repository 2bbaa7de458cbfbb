"""docker-compose.yaml without Docker: each service by the command that stands in the file, on free ports of loopback.

PostgreSQL and Redis are the system's; SeaweedFS is on no package index, and a second drydock stands in for its S3.
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
ORDER = [
    *("postgres", "redis", "s3", "init", "mlflow", "drydock", "docs"),
    *("api-server", "scheduler", "dag-processor", "triggerer", "worker"),
]
"""Of the start; each waits for the health of those that it depends on."""
SLIM = {"init", "api-server", "scheduler", "dag-processor", "triggerer", "worker"}
"""Services whose image has no ML libraries."""
PORTS = {
    "postgres": 5432, "redis": 6379, "s3": 8333, "mlflow": 5000, "drydock": 5005, "docs": 8000, "api-server": 8080,
    "scheduler": 8974,
}  # fmt: skip
OURS = {
    "AIRFLOW_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW_API_WORKERS": "1",
    "MLFLOW_WORKERS": "1",
    "WORKER_CONCURRENCY": "2",
}
"""What a person may set in .env."""
QUICK = {
    # Looked at in seconds; what is done about it is the same.
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
}


def program(name: str, folder: str) -> str:
    """The system's program, or the reason why the tests cannot run."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}")) or [Path(shutil.which(name) or "")]
    if not found[-1].is_file():
        pytest.skip(f"no {name} here: apt-get install {folder}")
    return str(found[-1])


class Stack:
    """The services of the file, as processes."""

    def __init__(self, folder: Path, free_port: Callable[[], int], until: Callable[..., Any]) -> None:
        self.folder, self.until = folder, until
        env = folder / ".env"
        subprocess.run([sys.executable, str(compose.ROOT / "docker/init_env.py"), str(env)], check=True)
        self.secrets = compose.read_env(env)
        self.services = compose.load(self.secrets | OURS)["services"]
        self.ports = {(name, port): free_port() for name, port in PORTS.items()}
        self.here = compose.LocalTranslator(self.services, self.ports, self._places())
        self.site = slim.write_site(folder / "site", "airflow")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.revived: list[str] = []
        self.down: set[str] = set()
        """Services that a test has ended; all others are started again where they end, as their restart policy says."""

    def _places(self) -> dict[str, str]:
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

    def url(self, service: str) -> str:
        return f"http://127.0.0.1:{self.ports[service, PORTS[service]]}"

    def start(self, service: str) -> None:
        """The service runs, and says of itself that it is healthy; one that ends by itself has ended well."""
        child = self._begin(service)
        if service == "init":
            assert child.wait() == 0, self.log(service)
            return
        ends = time.monotonic() + 120
        while child.poll() is None and not self.healthy(service):
            assert time.monotonic() < ends, f"{service}: {self.told}\n{self.log(service)}"
            time.sleep(0.3)  # a check is a process
        assert child.poll() is None, self.log(service)

    def _begin(self, service: str) -> subprocess.Popen[bytes]:
        command, env = self._command(service), self._environment(service)
        options: dict[str, Any] = {"env": env, "cwd": self.folder, "stdin": subprocess.DEVNULL, **self._user(service)}
        with (self.folder / f"{service}.log").open("ab") as log:
            child = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **options)
        self.running[service] = child
        self.down.discard(service)
        return child

    def come_about(self, what: Callable[[], Any], within_s: float = 300.0) -> Any:
        """What `what()` gives, as soon as that is true. Meanwhile Docker's part is done, and the API may fail."""

        def looked() -> Any:
            for service, child in list(self.running.items()):
                policy = str(self.services[service]["restart"])
                if child.poll() is not None and service not in self.down and policy == "unless-stopped":
                    self.revived.append(service)
                    end_group(child)
                    self._begin(service)
            time.sleep(0.2)
            with contextlib.suppress(requests.RequestException):
                return what()

        return self.until(looked, within_s)

    def healthy(self, service: str) -> bool:
        """What the health check of the file says."""
        if service == "s3":  # the stand-in has no such page
            command = [sys.executable, str(compose.ROOT / "docker/healthy.py"), f"{self.url(service)}/drydock/health"]
        else:
            command = self._translated(service, self.here.healthcheck(service))
        told = subprocess.run(command, env=self._environment(service), cwd=self.folder, capture_output=True, text=True)
        self.told = told.stdout + told.stderr
        return told.returncode == 0

    def kill(self, service: str) -> None:
        """kill -9 of the service and of all that it started: its container is gone."""
        self.down.add(service)
        child = self.running[service]
        below = psutil.Process(child.pid).children(recursive=True) if child.poll() is None else []
        for one in [child, *below]:
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                one.send_signal(signal.SIGKILL)
        end_group(child)

    def stop(self, service: str) -> None:
        """The service has ended as `docker compose stop` ends it."""
        self.down.add(service)
        child = self.running[service]
        child.send_signal(getattr(signal, self.services[service].get("stop_signal", "SIGTERM")))
        child.wait(120)

    def log(self, service: str) -> str:
        return (self.folder / f"{service}.log").read_text(errors="replace")[-4_000:]

    def _translated(self, service: str, command: list[str]) -> list[str]:
        name, *arguments = command
        if name in ("airflow", "celery"):
            return [sys.executable, "-m", name, *arguments]
        if name == "python":
            return [sys.executable, *arguments]
        if name in ("pg_isready", "postgres"):
            return [program(name, "postgresql"), *arguments]
        return [program(name, name) if name == "redis-server" else name, *arguments]

    def _command(self, service: str) -> list[str]:
        port = str(self.ports.get((service, PORTS.get(service, 0)), 0))
        if service == "s3":
            python, data = self.here.paths["/opt/drydock/bin/python"], self.here.paths["/var/lib"] + "/seaweedfs"
            return [python, "-m", "drydock", "--port", port, "--data", data]
        command = self._translated(service, self.here.command(service))
        if service == "postgres":
            sockets = ("-c", f"unix_socket_directories={self.postgres}", "-c", "fsync=off")
            return [*command, "-D", f"{self.postgres}/data", "-c", "listen_addresses=127.0.0.1", "-p", port, *sockets]
        if service == "docs":
            return [port if one == "8000" else one for one in command]
        return [*command, "--bind", "127.0.0.1", "--port", port] if service == "redis" else command

    def _environment(self, service: str) -> dict[str, str]:
        mine = {
            name: os.environ[name]
            for name in ("HOME", "LANG", "TMPDIR", "MLFLOW_DISABLE_TELEMETRY")
            if name in os.environ
        }
        roots = [str(self.site)] if service in SLIM else []
        roots += [str(compose.ROOT), str(compose.ROOT / "plugins")]
        own = {
            **mine,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(roots),
            **self.here.environment(service),
        }
        if service == "mlflow":  # as it is: names of this network's hosts
            own["MLFLOW_SERVER_ALLOWED_HOSTS"] = self.services[service]["environment"]["MLFLOW_SERVER_ALLOWED_HOSTS"]
        if service in SLIM:
            own |= {"AIRFLOW_HOME": str(self.folder / "airflow"), **QUICK}
        ports = {
            "api-server": "AIRFLOW__API__PORT",
            "scheduler": "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT",
            "mlflow": "MLFLOW_PORT",
            "drydock": "DRYDOCK_PORT",
            "postgres": "PGPORT",
        }
        if service in ports:
            own[ports[service]] = str(self.ports[service, PORTS[service]])
        return own

    def _user(self, service: str) -> dict[str, Any]:
        other = service == "postgres" and os.getuid() == 0
        return {"user": "nobody", "group": "nogroup", "extra_groups": [], "cwd": self.postgres} if other else {}

    @contextlib.contextmanager
    def cluster(self) -> Iterator[None]:
        """An empty PostgreSQL, as its image makes one: the superuser has the file's password."""
        # Not below tmp_path: others may not enter that, and PostgreSQL does not run as root.
        self.postgres = Path(tempfile.mkdtemp(prefix="leeway-pg-", dir="/tmp"))
        try:
            word = self.postgres / "word"
            word.write_text(self.secrets["POSTGRES_PASSWORD"])
            if other := self._user("postgres"):
                shutil.chown(self.postgres, "nobody", "nogroup")
                shutil.chown(word, "nobody", "nogroup")
            make = [program("initdb", "postgresql"), "-D", f"{self.postgres}/data", "-U", "postgres"]
            make += ["-A", "scram-sha-256", "--pwfile", str(word), "--no-sync", "--locale=C.UTF-8"]
            subprocess.run(make, check=True, capture_output=True, **({"cwd": self.postgres} | other))
            yield
        finally:
            shutil.rmtree(self.postgres)

    def make_databases(self) -> None:
        """What the image does once, with the file that the service mounts."""
        (mount,) = [one for one in self.services["postgres"]["volumes"] if "initdb.d" in one]
        env = self._environment("postgres") | {"PGHOST": "127.0.0.1", "PGPASSWORD": self.secrets["POSTGRES_PASSWORD"]}
        script = str(compose.ROOT / mount.split(":")[0])
        subprocess.run(["/bin/sh", script], env=env, check=True, capture_output=True)

    def end(self) -> None:
        """Nothing of it runs."""
        for service in reversed(list(self.running)):
            self.kill(service)

    # What tests ask.

    def call(self, method: str, path: str, **options: Any) -> Any:
        """An answer of Airflow's API, as the person who has the password."""
        login = {"username": "admin", "password": self.secrets["AIRFLOW_ADMIN_PASSWORD"]}
        token = requests.post(f"{self.url('api-server')}/auth/token", json=login, timeout=60).json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.request(
            method, f"{self.url('api-server')}/api/v2{path}", headers=headers, timeout=60, **options
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def client(self, service: str, at: str = "drydock") -> Any:
        names = ("S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY")
        key, secret = (self.secrets[name] for name in names)
        given = {"aws_access_key_id": key, "aws_secret_access_key": secret, "region_name": "us-east-1"}
        return boto3.client(service, endpoint_url=self.url(at), **given)

    def step(self, *arguments: str) -> Any:
        """A step by hand, with what a worker's steps have."""
        return subprocess.run(
            [self.here.paths["/opt/pipelines/bin/python"], "-m", "pipelines", *arguments],
            env=self._environment("worker"), cwd=compose.ROOT, capture_output=True, text=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], until: Callable[..., Any]
) -> Iterator[Stack]:
    """All services of the profile celery, healthy."""
    for name, package in (("initdb", "postgresql"), ("redis-server", "redis-server"), ("redis-cli", "redis-tools")):
        program(name, package)
    made = Stack(tmp_path_factory.mktemp("compose"), free_port, until)
    with made.cluster():
        try:
            for service in ORDER:
                made.start(service)
                if service == "postgres":
                    made.make_databases()
            yield made
        finally:
            made.end()
