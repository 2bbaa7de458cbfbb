"""Fork a Python process for each request that comes through a Unix socket.

Run it as `python -P server.py SOCKET`. It ends when its standard input is closed.

A request is one message: a header of 8 bytes (length of the body), then a JSON body. The header carries the three file
descriptors that become the child's stdin, stdout and stderr. The responses are lines of JSON: {"pid": N} from the
child as soon as its directory and descriptors are set, and {"status": N}, a status of waitpid(2), when it has ended.
The child stays a zombie until the client closes its end of the connection, so that no other process gets its process
id. Then the server reaps the child, and closes the other end. A child that is `tied` is killed if the client closes its
end before the child has ended.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRELOADED = (
    *("typer", "rich.console", "yaml", "requests", "pydantic_settings", "jinja2", "psutil", "tenacity", "packaging"),
    *("pandas", "pyarrow.parquet", "pyarrow.dataset", "pyarrow.compute", "duckdb", "ibis"),
    *("ibis.backends.duckdb", "sqlalchemy.dialects.sqlite"),
    *("sqlalchemy.orm", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow", "pyiceberg.expressions.parser"),
    *("scipy.stats", "sklearn.metrics", "xgboost", "matplotlib.figure", "matplotlib.backends.backend_agg"),
    *("great_expectations", "great_expectations.expectations", "optuna"),
    *("boto3", "s3fs", "mlflow", "mlflow.pyfunc", "mlflow.xgboost", "mlflow.tracking", "sagemaker.core.image_uris"),
    *("moto.moto_server.werkzeug_app", "moto.backends", "moto.s3.models", "moto.s3.responses", "moto.sts.models"),
    *("moto.sagemaker.models", "moto.sagemaker.responses", "moto.logs.models", "moto.logs.responses"),
    *("dvc.cli.parser", "dvc.repo", "dvc.commands.repro", "dvc.stage.run", "networkx", "git"),
    # What Airflow and MLflow's server import, but nothing of Airflow: it reads its configuration when it is imported.
    *("libcst", "aiohttp", "fastapi", "httpx", "jsonschema", "upath", "structlog", "flask", "alembic.command"),
    *("opentelemetry.sdk.trace", "opentelemetry.sdk.metrics", "sqlalchemy.ext.asyncio"),
    # Where torch is installed: two to five seconds for each process of its trainings.
    *("torch.distributed.fsdp", "torch.distributed.checkpoint.state_dict", "torch.distributed.checkpoint.hf_storage"),
    *("torch.nn.parallel", "torch.optim", "safetensors.torch"),
)
"""Libraries that the server imports. No import may start a thread or a pool: `main` checks Python's threads."""
ROOT = Path(__file__).resolve().parents[3]
CODE = ("pipelines", "drydock", "stack")
"""Packages under test that the server imports, too. Not `leeway`, as Airflow reads its configuration when imported."""
UNLOADED = frozenset({"__main__", "datasets", "templates", "host_names", "torch"})
"""Folders and modules of `CODE` that are not imported: scripts, templates, code that reads the environment when it is
imported, and what needs a library that may be missing."""

GC_THRESHOLD = 20_000
"""New objects before a child's garbage collector runs (Python: 700)."""


class Child:
    """A forked process, and the connection to the client that waits for its end."""

    def __init__(self, pid: int, connection: socket.socket, is_tied: bool) -> None:
        self.pid, self.connection, self.is_tied = pid, connection, is_tied
        self.pidfd = os.pidfd_open(pid)
        self.has_ended = False


class Server:
    """Serve requests until standard input is closed.

    Args:
        path: path of the Unix socket.
        library_paths: entries that the sys.path of every child has after the child's own entries.
        exit_calls: functions that the preloaded libraries registered for the end of a process.
    """

    def __init__(self, path: str, library_paths: list[str], exit_calls: list[tuple[Any, ...]]) -> None:
        self.library_paths, self.exit_calls = library_paths, exit_calls
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(128)
        self.stdin_copy = os.dup(0)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.selector.register(self.stdin_copy, selectors.EVENT_READ, self._exit)

    def serve(self) -> Callable[[], None]:
        """Serve requests. Return only in a forked child, with the function that the child has to call."""
        while True:
            for key, _ in self.selector.select():
                # An earlier event of this batch may have closed the file.
                if self.selector.get_map().get(key.fd) == key and (run_child := key.data()) is not None:
                    return run_child

    def _exit(self) -> None:
        os._exit(0)

    def _accept(self) -> Callable[[], None] | None:
        connection, _ = self.listener.accept()
        try:
            request, descriptors = _receive(connection)
        except (OSError, ValueError):
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            self._close_server_files()
            return lambda: run_request(request, descriptors, connection, self.library_paths, self.exit_calls)
        for descriptor in descriptors:
            os.close(descriptor)
        child = Child(pid, connection, bool(request["tied"]))
        self.selector.register(child.pidfd, selectors.EVENT_READ, lambda: self._report_end(child))
        self.selector.register(connection, selectors.EVENT_READ, lambda: self._handle_disconnect(child))
        return None

    def _report_end(self, child: Child) -> None:
        """Send the child's exit status to the client. The child stays a zombie."""
        end_info = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert end_info is not None
        child.has_ended = True
        self.selector.unregister(child.pidfd)
        os.close(child.pidfd)
        code, is_signal = end_info.si_status, end_info.si_code != os.CLD_EXITED
        self._send(child, {"status": code if is_signal else code << 8})

    def _handle_disconnect(self, child: Child) -> None:
        """Reap the child whose client has closed the connection, as soon as the child has ended."""
        self.selector.unregister(child.connection)
        if not child.has_ended:
            self.selector.unregister(child.pidfd)
            self.selector.register(child.pidfd, selectors.EVENT_READ, lambda: self._reap(child))
            if child.is_tied:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        else:
            os.waitpid(child.pid, 0)
        child.connection.close()  # the client waits for this, so the child has to be reaped first

    def _reap(self, child: Child) -> None:
        self.selector.unregister(child.pidfd)
        os.close(child.pidfd)
        os.waitpid(child.pid, 0)

    def _send(self, child: Child, response: dict[str, int]) -> None:
        with contextlib.suppress(OSError):  # the client has closed the connection: `_handle_disconnect` is called next
            child.connection.sendall(json.dumps(response).encode() + b"\n")

    def _close_server_files(self) -> None:
        """Close the server's files in a child."""
        open_files: list[Any] = [key.fileobj for key in self.selector.get_map().values()]
        self.selector.close()
        for file in open_files:
            if isinstance(file, int):
                os.close(file)
            else:
                file.close()


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive a request, and the descriptors that come with it."""
    descriptors = array.array("i")
    size = socket.CMSG_SPACE(3 * descriptors.itemsize)
    header, ancillary, _, _ = connection.recvmsg(8, size)
    for level, message_type, content in ancillary:
        if level == socket.SOL_SOCKET and message_type == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    length, body = int.from_bytes(header, "big"), b""
    while len(body) < length:
        chunk = connection.recv(min(length - len(body), 1 << 16))
        if not chunk:
            raise ValueError("the client closed the connection")
        body += chunk
    if len(descriptors) != 3:
        raise ValueError("three descriptors are needed")
    return json.loads(body), list(descriptors)


def run_request(
    request: dict[str, Any],
    descriptors: list[int],
    connection: socket.socket,
    library_paths: list[str],
    exit_calls: list[tuple[Any, ...]],
) -> None:
    """Run the request in this forked process, and end the process."""
    if request["session"]:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in {*descriptors} - {0, 1, 2}:
        os.close(descriptor)
    os.chdir(request["cwd"])
    _reset_signals()
    connection.sendall(json.dumps({"pid": os.getpid()}).encode() + b"\n")
    connection.close()
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    tempfile.tempdir = None
    sys.modules["numpy"].random.seed()  # Python's own generator is seeded at each fork, NumPy's is not
    importlib.invalidate_caches()
    sys.executable = request["executable"] or sys.executable
    code = 1
    try:
        _run_program(request["arguments"], library_paths, exit_calls)
        code = 0
    except SystemExit as error:
        code = _get_exit_code(error)
    except BaseException as error:
        _print_error(error)
        if isinstance(error, KeyboardInterrupt):
            code = -signal.SIGINT
    _end_process(code)


def _get_exit_code(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return int(error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201
    return 1


def _print_error(error: BaseException) -> None:
    """Write an uncaught error as the interpreter does, without this module's frames."""
    trace = error.__traceback__
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _end_process(code: int) -> None:
    """End the process as the interpreter does, but do not free the preloaded objects one by one."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _reset_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _run_program(arguments: list[str], library_paths: list[str], exit_calls: list[tuple[Any, ...]]) -> None:
    """Run `[-u] -m MODULE ...`, `[-u] -c CODE ...` or `[-u] SCRIPT ...`."""
    if arguments[0] == "-u":
        arguments = arguments[1:]
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [*paths, *(path for path in library_paths if path not in paths)]
    program = types.ModuleType("__main__")
    program.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = program
    _register_exit_calls(exit_calls)
    if arguments[0] == "-m":
        import runpy

        sys.path.insert(0, os.getcwd())
        _drop_other_code()
        sys.argv = ["-m", *arguments[2:]]
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]
    elif arguments[0] == "-c":
        sys.path.insert(0, "")
        _drop_other_code()
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), program.__dict__)
    else:
        script = Path(arguments[0])
        sys.path.insert(0, str(script.resolve().parent))
        _forget_code()  # a script may decide itself where it finds the code
        sys.argv = list(arguments)
        program.__file__ = arguments[0]
        exec(compile(script.read_bytes(), arguments[0], "exec"), program.__dict__)


def _drop_other_code() -> None:
    """Forget the imported code under test, unless this process would import it from the same files."""
    for package in CODE:
        spec = importlib.machinery.PathFinder.find_spec(package, sys.path)
        if spec is None or spec.origin != sys.modules[package].__file__:
            _forget_code()
            return


def _forget_code() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in CODE]:
        del sys.modules[name]


def _register_exit_calls(exit_calls: list[tuple[Any, ...]]) -> None:
    """Register the libraries' exit calls right after the first exit call of the program, as if it imported them then.

    Exit calls run in reverse order. Before its imports, `python -m pipelines` registers a call that ends the process at
    once. That call must be the last to run.
    """
    register = atexit.register

    def register_library_calls() -> None:
        atexit.register = register
        for function, arguments, options in exit_calls:
            register(function, *arguments, **options)

    def register_program_call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[..., Any]:
        result = register(function, *arguments, **options)
        if atexit.register is register_program_call:
            register_library_calls()
        return result

    atexit.register = register_program_call
    register(lambda: None if atexit.register is register else register_library_calls())


def preload() -> list[tuple[Any, ...]]:
    """Import the libraries, and return the exit calls that they registered."""
    exit_calls: list[tuple[Any, ...]] = []
    register = atexit.register

    def record(function: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[..., Any]:
        exit_calls.append((function, arguments, options))
        return function

    atexit.register = record
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PRELOADED:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(name)
        _cache_aws_models()
        _list_installed_modules()
        _import_code()
    atexit.register = register
    inspect.getmodule(sys._getframe())  # the first call resolves the path of every module
    inspect.getmodule = get_module
    return exit_calls


def _import_code() -> None:
    """Import the code under test, which takes longer than what most commands do."""
    sys.path.insert(0, str(ROOT))
    for package in CODE:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if not UNLOADED & set(parts):
                importlib.import_module(".".join(parts).removesuffix(".__init__"))
    sys.path.remove(str(ROOT))
    assert "pipelines.datasets" not in sys.modules, "it reads the environment when it is imported"


_modules_of_files: dict[str, Any] = {}


def get_module(object: Any, _filename: str | None = None, _get_module: Any = inspect.getmodule) -> Any:
    """Return what `inspect.getmodule` returns. For a frame, search all modules once per file.

    Pydantic asks for the module of a frame for each model with documented fields, and the amazon provider for each
    frame of the stack for each client. Each search goes through the 4,000 modules of the process.
    """
    if not isinstance(object, types.FrameType):
        return _get_module(object, _filename)
    file = object.f_code.co_filename
    module = sys.modules.get(object.f_globals.get("__name__", ""))
    if module is not None and getattr(module, "__file__", None) == file:
        return module
    if file not in _modules_of_files:
        _modules_of_files[file] = _get_module(object, _filename)
    return _modules_of_files[file]


def _list_installed_modules() -> None:
    """List the modules of all packages once for all children. MLflow does so in each process that logs a model."""
    from mlflow.utils import requirements_utils

    requirements_utils._init_modules_to_packages_map()


def _cache_aws_models() -> None:
    """Read botocore's models once for all children."""
    spec = importlib.util.spec_from_file_location("aws_models", Path(__file__).with_name("aws_models.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.cache_aws_models().__enter__()  # until the process ends
    module.read_aws_models()


def main() -> Callable[[], None]:
    """Serve requests. Return only in a forked child, with the function that the child has to call."""
    exit_calls = preload()
    assert threading.active_count() == 1, threading.enumerate()
    assert "leeway" not in sys.modules, "only a child may import what reads Airflow's configuration"
    gc.collect()
    gc.freeze()  # the children's collector then neither touches nor copies these objects
    gc.set_threshold(GC_THRESHOLD)
    return Server(sys.argv[1], list(sys.path), exit_calls).serve()


if __name__ == "__main__":
    main()()
