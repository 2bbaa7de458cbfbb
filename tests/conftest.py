"""What tests of the steps share: a home of their own, a lake with real partitions, an MLflow server."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
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

import psutil
import pytest

from tests.tools import forking
from tests.tools.groups import end_group
from tests.tools.scheduling import Balance
from tests.tools.waiting import wait_until

ROOT = Path(__file__).parents[1]
OWN = ("LEEWAY_", "MLFLOW_", "AWS_", "PYICEBERG_", "SM_", "SAGEMAKER_")
"""Variables that must not leak from the machine into a test."""
PORTS = range(20_000, 32_000)
"""Below those that a system gives by itself, to a client or to who asks for any: nobody is given one before its use."""
PRINTED = 3_000
"""Characters shown of what a failed test printed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-durations", action="store_true", help="write tests/durations.json anew from this run")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing of the caller's shell decides what a test sees. Airflow reads its home at import: it has a new one."""
    for name in [name for name in os.environ if name.startswith((*OWN, "AIRFLOW_"))]:
        del os.environ[name]
    os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", GX_ANALYTICS_ENABLED="false", DVC_NO_ANALYTICS="1")
    # As the stack does: of MLflow no seven processes that nobody asks, of OpenMP no threads that wait in a loop.
    os.environ.update(MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false", OMP_WAIT_POLICY="passive")
    # A JVM that lives for seconds: what its optimizing compiler and its collector's threads take, it never gives back.
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    airflow_home = tempfile.TemporaryDirectory(prefix="airflow-home-")
    config.add_cleanup(airflow_home.cleanup)
    config.add_cleanup(forking.stop_server)
    config.pluginmanager.register(Balance(config.getoption("store_durations")))
    os.environ.update(AIRFLOW_HOME=airflow_home.name, AIRFLOW__CORE__LOAD_EXAMPLES="False")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's `pytest &`; what tests start would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Of what a failed test printed the end is shown: hundreds of boosting rounds would hide what failed."""
    report = yield
    report.sections = [(name, text[-PRINTED:]) for name, text in report.sections]
    return report


@pytest.fixture(scope="session", autouse=True)
def _aws_models_are_parsed_once() -> Iterator[None]:
    """Each new session of botocore parses megabytes of JSON: that was a sixth of what the tests' own processes did."""
    from botocore.loaders import JSONFileLoader

    parse = JSONFileLoader.load_file
    parsed = functools.cache(lambda path: parse(JSONFileLoader(), path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda _, path: parsed(path))
        yield


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run of the tests, the same for all its workers."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def java() -> None:
    """Skips where there is no Java for Spark."""
    from pipelines.errors import SpecError
    from pipelines.features.engines.spark import check_java

    try:
        check_java()
    except SpecError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def until() -> Callable[..., Any]:
    """Waits on a condition, for a bounded time."""
    return wait_until


def _use(monkeypatch: pytest.MonkeyPatch, home: Path, project: Path) -> None:
    from pipelines.settings import settings

    monkeypatch.setenv("LEEWAY_HOME", str(home))
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    settings.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A LEEWAY_HOME of the test's own; the working directory is `tmp_path`, the project this one."""
    from pipelines.settings import settings

    _use(monkeypatch, tmp_path / "home", ROOT)
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "home"
    settings.cache_clear()


@pytest.fixture
def fresh_settings() -> Iterator[Callable[[], None]]:
    """Makes a change of the environment seen; what a test set is forgotten after it."""
    from pipelines.settings import settings

    settings.cache_clear()
    yield settings.cache_clear
    settings.cache_clear()


@pytest.fixture(scope="session")
def source() -> Any:
    """The real year, its files read once."""
    from pipelines.datasets.flights.source import open_source

    return open_source()


@pytest.fixture(scope="session")
def day_rows(source: Any) -> Callable[[str], Any]:
    """The real rows of a day (YYYY-MM-DD)."""
    kept: dict[str, Any] = {}

    def rows(day: str) -> Any:
        if day not in kept:
            kept[day] = source.read(dt.date.fromisoformat(day)).read_all()
        return kept[day]

    return rows


@pytest.fixture(scope="session")
def quarter(tmp_path_factory: pytest.TempPathFactory, source: Any) -> Path:
    """A LEEWAY_HOME with January to March published. Read only, and not to be copied: a lake's paths are absolute."""
    from pipelines.lake import Lake
    from pipelines.settings import settings

    folder = tmp_path_factory.mktemp("quarter")
    with pytest.MonkeyPatch.context() as patch:
        _use(patch, folder, ROOT)
        lake = Lake.open()
        for n in range(90):
            day = dt.date(2013, 1, 1) + dt.timedelta(n)
            lake.write_partition("flights", day, source.read(day))
    settings.cache_clear()
    return folder


@pytest.fixture
def in_quarter(home: Path, quarter: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """LEEWAY_HOME is the quarter's; outputs go to `tmp_path`, the working directory."""
    _use(monkeypatch, quarter, ROOT)
    return quarter


SMALL = {"num_round": 40, "early_stopping_rounds": 10, "checkpoint_rounds": 5, "eta": 0.3}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, quarter: Path) -> SimpleNamespace:
    """A small real training: snapshot, features, model, record and evaluation below `folder`. Copy before changing."""
    from pipelines.settings import settings
    from pipelines.steps import evaluate, preprocess, snapshot, train

    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        _use(patch, quarter, ROOT)
        patch.chdir(folder)
        pinned = snapshot.run(
            snapshot.SnapshotSpec(as_of="2013-01-25", train_days=12, holdout_days=6, min_train_days=4)
        )
        built = preprocess.run(preprocess.PreprocessSpec(validation_days=2))
        model = train.run(train.TrainSpec(hyperparameters=SMALL))
        told = evaluate.run(evaluate.EvaluateSpec())
    settings.cache_clear()
    data = folder / "data"
    return SimpleNamespace(folder=folder, data=data, pinned=pinned, built=built, model=model, told=told)


@dataclass
class Commands:
    """Commands as a person or an operator starts them; what is left of them is ended after the test."""

    env: dict[str, str]
    cwd: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(
        self, *command: str, env: dict[str, str] | None = None, is_real: bool = False, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command in a process group of its own.

        Args:
            command: its words.
            env: variables added to `self.env`.
            is_real: the test is about the process itself: Python is started anew, and not forked from the server.
            options: of Popen.
        """
        options = {"cwd": self.cwd, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        popen = subprocess.Popen if is_real else forking.Popen
        child = popen(command, env={**self.env, **(env or {})}, text=True, start_new_session=True, **options)
        self.started.append(child)
        return child

    def run(self, *command: str, env: dict[str, str] | None = None, **options: Any) -> SimpleNamespace:
        """Exit code, stdout and stderr of the command."""
        child = self.start(*command, env=env, **options)
        out, err = child.communicate(timeout=300)
        return SimpleNamespace(code=child.returncode, out=out or "", err=err or "")

    def step(self, *arguments: str, **options: Any) -> SimpleNamespace:
        """As `run`, for `python -m pipelines`; what it starts in Python is forked, too."""
        if not options.get("is_real"):
            options["executable_of_child"] = forking.stand_in()
        return self.run(sys.executable, "-m", "pipelines", *arguments, **options)

    def members(self, group: int) -> list[psutil.Process]:
        """The processes of a group that live."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def end(self) -> None:
        """All groups that were started are gone."""
        for child in self.started:
            end_group(child)
            for pipe in (child.stdout, child.stderr, child.stdin):
                if pipe:
                    pipe.close()


@pytest.fixture
def commands(home: Path, tmp_path: Path) -> Iterator[Commands]:
    """Starts commands in `tmp_path` with the test's LEEWAY_HOME."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    made = Commands(env, tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """A loopback port that nobody listens on, and no other worker of this run will."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ours = iter(random.sample(PORTS[worker % 16 :: 16], len(PORTS) // 16))

    def port() -> int:
        for number in ours:
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind(("127.0.0.1", number))
                return number
        raise AssertionError("no port is free")

    return port


@pytest.fixture(scope="session")
def start_mlflow(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Iterator[Callable[[], Any]]:
    """Starts a real MLflow server (SQLite); gives its process and address."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> tuple[subprocess.Popen[bytes], str]:
        from pipelines.system.mlflow_server import is_reachable

        folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
            *(
                "--backend-store-uri",
                f"sqlite:///{folder}/mlflow.db",
                "--artifacts-destination",
                str(folder / "artifacts"),
            ),
        ]
        with (folder / "log").open("w") as log:
            child = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        started.append(child)
        uri = f"http://127.0.0.1:{port}"
        wait_until(lambda: child.poll() is not None or is_reachable(uri, 1.0), 120)
        assert child.poll() is None, (folder / "log").read_text()
        return child, uri

    yield start
    for child in started:
        end_group(child)


@pytest.fixture(scope="session")
def mlflow_server(start_mlflow: Callable[[], Any]) -> Any:
    """The session's MLflow server: its process and address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow 3.17 warns of its own type hints when it is imported
        import mlflow.pyfunc  # noqa: F401
    return start_mlflow()


@pytest.fixture(scope="session")
def mlflow_uri(mlflow_server: tuple[subprocess.Popen[bytes], str]) -> str:
    """Address of the session's MLflow server."""
    return mlflow_server[1]


@pytest.fixture
def with_mlflow(
    home: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> str:
    """MLFLOW_TRACKING_URI is the session's server."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
    fresh_settings()
    return mlflow_uri
