"""Provide what all tests share: a home for each test, a lake with real partitions, an MLflow server."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import inspect
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import psutil
import pytest
import yaml

from pipelines import params
from tests.tools import forking
from tests.tools.forking.server import get_module
from tests.tools.groups import end_group
from tests.tools.machine_use import MachineUsePlugin
from tests.tools.root_logs import capture_root_logs_only
from tests.tools.saved_homes import SavedHome
from tests.tools.scheduling import BalancePlugin
from tests.tools.second_run import SecondRunPlugin
from tests.tools.waiting import wait_until

ROOT = Path(__file__).parents[1]
OWN_PREFIXES = ("LEEWAY_", "MLFLOW_", "AWS_", "PYICEBERG_", "SM_", "SAGEMAKER_", "OTEL_", "TRACE")
"""Prefixes of the variables that must not leak from the machine into a test."""
PORT_RANGE = range(20_000, 32_000)
"""Ports below the ephemeral range, which the system never chooses for another process."""
MAX_OUTPUT_CHARS = 3_000
"""Number of characters of its output that a failed test shows."""

GC_THRESHOLD = 20_000
"""New objects before the garbage collector runs (Python: 700)."""


MEMORY_FOLDER = Path("/dev/shm")
MIN_MEMORY_BYTES = 8 << 30
"""Least free memory with which the folders of the tests are there. A whole run needs 3 GiB."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store-durations", action="store_true", help="replace tests/durations.json by the durations of this run"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Remove the shell's variables, and set AIRFLOW_HOME to a new folder before Airflow is imported."""
    gc.set_threshold(GC_THRESHOLD)
    capture_root_logs_only()
    for name in [name for name in os.environ if name.startswith((*OWN_PREFIXES, "AIRFLOW_"))]:
        del os.environ[name]
    os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", GX_ANALYTICS_ENABLED="false", DVC_NO_ANALYTICS="1")
    # The stack sets these, too: MLflow starts no idle job processes, and waiting threads of OpenMP do not spin.
    os.environ.update(MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false", OMP_WAIT_POLICY="passive")
    # A JVM here lives for seconds: its optimizing compiler and its collector's threads cost more time than they save.
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    if _is_memory_free():
        # Each commit of SQLite and of the lake waits for the disk, which is a part of the time of most tests.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_FOLDER))
    airflow_home = tempfile.TemporaryDirectory(prefix="airflow-home-")
    config.add_cleanup(airflow_home.cleanup)
    config.add_cleanup(forking.stop_server)
    if config.getoption("numprocesses", None):  # the process that starts the workers
        forking.share_server()
    config.pluginmanager.register(BalancePlugin(config.getoption("store_durations")))
    config.pluginmanager.register(MachineUsePlugin())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondRunPlugin())
    os.environ.update(AIRFLOW_HOME=airflow_home.name, AIRFLOW__CORE__LOAD_EXAMPLES="False")
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # `pytest &` ignores SIGINT, and processes of the tests would inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_memory_free() -> bool:
    """Return whether a file system in memory can hold the folders of the tests, and run programs from there."""
    if not MEMORY_FOLDER.is_dir():
        return False
    system = os.statvfs(MEMORY_FOLDER)
    free_bytes = min(system.f_bavail * system.f_frsize, psutil.virtual_memory().available)
    return free_bytes >= MIN_MEMORY_BYTES and not system.f_flag & os.ST_NOEXEC


def pytest_collection_finish() -> None:
    """Leave what the imports made, some million objects that live as long as the worker, out of garbage collections.

    Do not search them for the module of a frame, either: the amazon provider looks at each frame for each client.
    """
    inspect.getmodule = get_module
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # some libraries report what is still alive when Python ends


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Cut the output of a failed test to its end: hundreds of boosting rounds would hide the failure."""
    report = yield
    report.sections = [(name, text[-MAX_OUTPUT_CHARS:]) for name, text in report.sections]
    return report


@pytest.fixture(scope="session", autouse=True)
def _aws_model_cache() -> Iterator[None]:
    """Share botocore's models among all sessions of this process: to read them is a sixth of the tests' CPU time."""
    from tests.tools.forking.aws_models import cache_aws_models

    with cache_aws_models():
        yield


@pytest.fixture(scope="session", autouse=True)
def _tls_context_cache() -> Iterator[None]:
    """Read the list of certificate authorities once, not for each client of a trigger. The tests use no TLS."""
    from aiobotocore.httpsession import AIOHTTPSession

    build = AIOHTTPSession._build_verify_context
    contexts: dict[Any, Any] = {}

    def build_once(session: AIOHTTPSession) -> Any:
        if session._verify not in contexts:
            contexts[session._verify] = build(session)
        return contexts[session._verify]

    with patch.object(AIOHTTPSession, "_build_verify_context", build_once):
        yield


@pytest.fixture(autouse=True)
def _restore_python_path() -> Iterator[None]:
    """Give each test Python's path as it was: MLflow prepends the code of each model that it loads, and keeps it."""
    folders = list(sys.path)
    yield
    sys.path = folders


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of this test run, which all workers share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def java() -> None:
    """Skip the test where there is no Java for Spark."""
    from pipelines.errors import SpecError
    from pipelines.features.engines.spark import check_java

    try:
        check_java()
    except SpecError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def until() -> Callable[..., Any]:
    """Return the function that waits until a condition is true, for a bounded time."""
    return wait_until


def set_home(monkeypatch: pytest.MonkeyPatch, home: Path, project: Path) -> None:
    """Set LEEWAY_HOME and the project, and read the settings again."""
    from pipelines.settings import settings

    monkeypatch.setenv("LEEWAY_HOME", str(home))
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    settings.cache_clear()


@pytest.fixture(scope="session")
def one_model_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with the parameters of flights, and without models/: there, a model may have any name."""
    folder = tmp_path_factory.mktemp("project")
    for name in (".git", "pipelines", "expectations", "dvc.yaml", "uv.lock"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "params.yaml").write_text(yaml.safe_dump(params.load(ROOT, "flights")))
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_model_project: Path) -> Iterator[Path]:
    """Set LEEWAY_HOME to an empty folder, the project to `one_model_project`, the working directory to `tmp_path`."""
    from pipelines.settings import settings

    set_home(monkeypatch, tmp_path / "home", one_model_project)
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "home"
    settings.cache_clear()


@pytest.fixture(scope="module")
def save_home(tmp_path_factory: pytest.TempPathFactory, one_model_project: Path) -> Callable[..., SavedHome]:
    """Return the function that makes the content of a LEEWAY_HOME by a call, once for the tests of a module."""
    from pipelines.settings import settings

    def save(make_content: Callable[[], object], project: Path = one_model_project) -> SavedHome:
        saved_home = SavedHome(tmp_path_factory.mktemp("saved"))
        with pytest.MonkeyPatch.context() as patch:
            set_home(patch, saved_home.path, project)
            saved_home.save(make_content)
        settings.cache_clear()
        return saved_home

    return save


@pytest.fixture
def restore_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_model_project: Path
) -> Iterator[Callable[..., Path]]:
    """Return the function that sets LEEWAY_HOME to a saved home with its saved content, as the fixture `home` does."""
    from pipelines.settings import settings

    def restore(saved_home: SavedHome, project: Path = one_model_project) -> Path:
        set_home(monkeypatch, saved_home.restore(), project)
        monkeypatch.chdir(tmp_path)
        return saved_home.path

    yield restore
    settings.cache_clear()


@pytest.fixture
def fresh_settings() -> Iterator[Callable[[], None]]:
    """Return the function that reads the settings from the environment again. It runs after the test, too."""
    from pipelines.settings import settings

    settings.cache_clear()
    yield settings.cache_clear
    settings.cache_clear()


@pytest.fixture(scope="session")
def source() -> Any:
    """Return the source with the real year of flights; its files are read once."""
    from pipelines.datasets.flights.source import open_source

    return open_source()


@pytest.fixture(scope="session")
def day_rows(source: Any) -> Callable[[str], Any]:
    """Return the function that gives the real rows of a day (YYYY-MM-DD)."""
    tables: dict[str, Any] = {}

    def read_rows(day: str) -> Any:
        if day not in tables:
            tables[day] = source.read(dt.date.fromisoformat(day)).read_all()
        return tables[day]

    return read_rows


@pytest.fixture(scope="session")
def published_quarter(tmp_path_factory: pytest.TempPathFactory, source: Any, one_model_project: Path) -> Path:
    """Return a LEEWAY_HOME with January to March published. Do not change or copy it: a lake's paths are absolute."""
    from pipelines.lake import Lake
    from pipelines.settings import settings

    folder = tmp_path_factory.mktemp("published_quarter")
    with pytest.MonkeyPatch.context() as patch:
        set_home(patch, folder, one_model_project)
        lake = Lake.open()
        for n in range(90):
            day = dt.date(2013, 1, 1) + dt.timedelta(n)
            lake.write_partition("flights", day, source.read(day))
    settings.cache_clear()
    return folder


@pytest.fixture
def quarter_home(home: Path, published_quarter: Path, monkeypatch: pytest.MonkeyPatch, one_model_project: Path) -> Path:
    """Set LEEWAY_HOME to the fixture `published_quarter`. Outputs go to `tmp_path`, the working directory."""
    set_home(monkeypatch, published_quarter, one_model_project)
    return published_quarter


SMALL_HYPERPARAMETERS = {"num_round": 40, "early_stopping_rounds": 10, "checkpoint_rounds": 5, "eta": 0.3}


@pytest.fixture(scope="session")
def trained(
    tmp_path_factory: pytest.TempPathFactory, published_quarter: Path, one_model_project: Path
) -> SimpleNamespace:
    """Train a small real model; return the steps' results, and their `folder`. Copy it before you change a file."""
    from pipelines.settings import settings
    from pipelines.steps import evaluate, preprocess, snapshot, train

    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        set_home(patch, published_quarter, one_model_project)
        patch.chdir(folder)
        snapshot_result = snapshot.run(
            snapshot.SnapshotSpec(
                dataset="flights", as_of="2013-01-25", train_days=12, holdout_days=6, min_train_days=4
            )
        )
        features = preprocess.run(preprocess.PreprocessSpec(validation_days=2))
        training = train.run(train.TrainSpec(dataset="flights", hyperparameters=SMALL_HYPERPARAMETERS))
        evaluation = evaluate.run(
            evaluate.EvaluateSpec(
                dataset="flights",
            )
        )
    settings.cache_clear()
    data = folder / "data"
    return SimpleNamespace(
        folder=folder,
        data=data,
        snapshot=snapshot_result,
        features=features,
        training=training,
        evaluation=evaluation,
    )


@dataclass
class Commands:
    """Start commands as a person or an operator does, and end their processes after the test."""

    env: dict[str, str]
    cwd: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(
        self, *command: str, env: dict[str, str] | None = None, is_real: bool = False, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command in a process group of its own.

        Args:
            command: The program and its arguments.
            env: Variables added to `self.env`.
            is_real: Start a new Python process, not a fork of the forking server, for tests of the process itself.
            options: Options of Popen.
        """
        options = {"cwd": self.cwd, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        popen_class = subprocess.Popen if is_real else forking.Popen
        child = popen_class(command, env={**self.env, **(env or {})}, text=True, start_new_session=True, **options)
        self.started.append(child)
        return child

    def run(self, *command: str, env: dict[str, str] | None = None, **options: Any) -> SimpleNamespace:
        """Run a command to its end and return its exit code, stdout and stderr."""
        child = self.start(*command, env=env, **options)
        out, err = child.communicate(timeout=300)
        return SimpleNamespace(code=child.returncode, out=out or "", err=err or "")

    def run_step(self, *arguments: str, **options: Any) -> SimpleNamespace:
        """Run `python -m pipelines` with these arguments. Python processes that it starts are forked, too."""
        if not options.get("is_real"):
            options["executable_of_child"] = forking.ensure_stand_in()
        return self.run(sys.executable, "-m", "pipelines", *arguments, **options)

    def list_members(self, group: int) -> list[psutil.Process]:
        """List the live processes of a process group."""
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
        return processes

    def end(self) -> None:
        """End each process group that was started, and close its pipes."""
        for child in self.started:
            end_group(child)
            for pipe in (child.stdout, child.stderr, child.stdin):
                if pipe:
                    pipe.close()


@pytest.fixture
def commands(home: Path, tmp_path: Path) -> Iterator[Commands]:
    """Return a runner of commands, in `tmp_path` with the test's LEEWAY_HOME."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    runner = Commands(env, tmp_path)
    yield runner
    runner.end()


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Return the function that gives a free loopback port, which no other worker of this test run gets."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    numbers = iter(random.sample(PORT_RANGE[worker % 16 :: 16], len(PORT_RANGE) // 16))

    def find_port() -> int:
        for number in numbers:
            with contextlib.suppress(OSError), socket.socket() as listener:
                listener.bind(("127.0.0.1", number))
                return number
        raise AssertionError("no port is free")

    return find_port


@pytest.fixture(scope="session")
def start_mlflow(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Iterator[Callable[[], Any]]:
    """Return the function that starts a real MLflow server and returns its process and address.

    Its argument is the address of the server's database; without it, that is a SQLite file.
    """
    started_processes: list[subprocess.Popen[bytes]] = []

    def start(database: str = "") -> tuple[subprocess.Popen[bytes], str]:
        from pipelines.system.mlflow_server import is_reachable

        folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
            *(
                "--backend-store-uri",
                database or f"sqlite:///{folder}/mlflow.db",
                "--artifacts-destination",
                str(folder / "artifacts"),
            ),
        ]
        with (folder / "log").open("w") as log:
            options: dict[str, Any] = {"stdout": log, "stderr": log, "start_new_session": True}
            child = forking.Popen(command, cwd=folder, executable_of_child=forking.ensure_stand_in(), **options)
        started_processes.append(child)
        uri = f"http://127.0.0.1:{port}"
        wait_until(lambda: child.poll() is not None or is_reachable(uri, 1.0), 120)
        assert child.poll() is None, (folder / "log").read_text()
        return child, uri

    yield start
    for child in started_processes:
        end_group(child)


@pytest.fixture(scope="session")
def mlflow_server(start_mlflow: Callable[[], Any]) -> Any:
    """Start one MLflow server for the session; return its process and address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow 3.17 warns of its own type hints when it is imported
        import mlflow.pyfunc  # noqa: F401
    return start_mlflow()


@pytest.fixture(scope="session")
def mlflow_uri(mlflow_server: tuple[subprocess.Popen[bytes], str]) -> str:
    """Return the address of the session's MLflow server."""
    return mlflow_server[1]


@pytest.fixture
def with_mlflow(
    home: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> str:
    """Set MLFLOW_TRACKING_URI to the session's MLflow server, and return it."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
    fresh_settings()
    return mlflow_uri
