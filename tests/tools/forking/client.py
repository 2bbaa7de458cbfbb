"""Start a process through the forking server, with the interface of subprocess.Popen."""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

STARTUP_PREFIXES = (
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "LD_",
    "MALLOC_",
    "ARROW_",
    "PYICEBERG_",
    "GX_",
    "MPL",
    "PYTHON",
    "S3_",
    "MOTO_",
)
"""Prefixes of variables that Python or a library reads at its start. If such a variable differs, no fork is used."""
IGNORED_VARIABLES = ("PYTHONPATH",)
"""Variables with such a prefix that may differ, because the child applies them itself."""
SERVER_VARIABLE = "FORKING_SERVER"
"""The variable with the socket and the startup variables of a server that several processes share, as JSON."""
_servers: dict[int, tuple[subprocess.Popen[bytes] | None, str, dict[str, str]]] = {}
"""The server of each process, with its socket and startup variables, by process id.

The server is None if another process started it, and shares it."""


def share_server() -> None:
    """Start a server for all processes that this process starts later. Its imports take 10 seconds of CPU time."""
    ensure_server(is_ready=False)
    _, path, variables = _servers[os.getpid()]
    os.environ[SERVER_VARIABLE] = json.dumps([path, variables])


def ensure_server(*, is_ready: bool = True) -> str:
    """Return the socket path of the server that this process uses. Start the server if there is none.

    Args:
        is_ready: Wait until the server accepts requests.
    """
    if os.getpid() not in _servers and SERVER_VARIABLE in os.environ:
        _servers[os.getpid()] = None, *json.loads(os.environ[SERVER_VARIABLE])
    if os.getpid() not in _servers:
        path = str(Path(tempfile.gettempdir()) / f"forking-{uuid.uuid4().hex[:12]}")
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, "-P", str(Path(__file__).with_name("server.py")), path]
        log = None if "FORKING_LOG" in env else subprocess.DEVNULL
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/", start_new_session=True
        )
        _servers[os.getpid()] = process, path, select_startup_variables(env)
    process, path, _ = _servers[os.getpid()]
    deadline = time.monotonic() + 300
    while is_ready and not Path(path).exists():
        assert process is None or process.poll() is None, "the forking server ended; FORKING_LOG=1 shows what it wrote"
        assert time.monotonic() < deadline, "the forking server did not start"
        time.sleep(0.01)
    return path


def stop_server() -> None:
    """End the server that this process started. The server's children continue to run. Idempotent."""
    process, path, _ = _servers.pop(os.getpid(), (None, "", {}))
    if process:
        assert process.stdin
        process.stdin.close()
        process.wait(60)
        Path(path).unlink(missing_ok=True)
        shutil.rmtree(f"{path}-bin", ignore_errors=True)


def select_startup_variables(env: dict[str, str]) -> dict[str, str]:
    """Return the variables that Python or a library reads when it starts."""
    return {
        name: value
        for name, value in env.items()
        if name.startswith(STARTUP_PREFIXES) and name not in IGNORED_VARIABLES
    }


def connect(path: str) -> socket.socket:
    """Connect to a server, and retry for 5 seconds: a server that has bound its socket may not listen yet."""
    for _ in range(500):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
            return connection
        except ConnectionRefusedError:
            connection.close()
            time.sleep(0.01)
    raise ConnectionRefusedError(path)


class Popen(subprocess.Popen[Any]):
    """A subprocess.Popen whose process is forked from the server, or is started anew where no fork is possible.

    The first word of the command has to be this interpreter; the next are `[-u] -m MODULE`, `[-u] -c CODE` or
    `[-u] SCRIPT`.

    Args:
        args: the command.
        executable_of_child: value of `sys.executable` in the child, such as the program that stand_in.py writes.
            Empty means this interpreter.
        options: options of subprocess.Popen.
    """

    _connection: socket.socket | None = None
    _buffer = b""

    def __init__(self, args: Any, *, executable_of_child: str = "", **options: Any) -> None:
        self._executable_of_child = executable_of_child
        super().__init__(args, **options)

    def _execute_child(self, *arguments: Any) -> None:
        (args, executable, preexec_fn, _close_fds, pass_fds, cwd, env, _info, _flags, shell) = arguments[:10]
        pipes, (_restore, gid, gids, uid, umask, session, group) = arguments[10:16], arguments[16:23]
        environment = dict(os.environ if env is None else env)
        is_plain = not (executable or preexec_fn or pass_fds or shell or gids) and (gid, uid, umask, group) == (
            None, None, -1, -1,
        )  # fmt: skip
        if not (is_plain and can_fork(args, environment)):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        p2cread, _, _, c2pwrite, _, errwrite = pipes
        streams = enumerate((p2cread, c2pwrite, errwrite))
        descriptors = [pipe if pipe != -1 else standard for standard, pipe in streams]
        request = {
            "arguments": [os.fspath(word) for word in args[1:]], "cwd": os.path.abspath(os.fspath(cwd or os.getcwd())),
            "env": environment, "session": bool(session), "tied": False,
            "executable": self._executable_of_child,
        }  # fmt: skip
        try:
            if not os.path.isdir(request["cwd"]):
                raise FileNotFoundError(2, "No such file or directory", request["cwd"])
            self._connection = connect(ensure_server())
            body = json.dumps(request).encode()
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            self._connection.sendmsg([len(body).to_bytes(8, "big")], ancillary)
            self._connection.sendall(body)
            self.pid = int(self._read_response(None)["pid"])
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _read_response(self, timeout: float | None) -> dict[str, int] | None:
        """Return the server's next response, or None where none came in time. Without a timeout, wait."""
        assert self._connection
        while b"\n" not in self._buffer:
            if timeout is not None and not select.select([self._connection], [], [], timeout)[0]:
                return None
            chunk = self._connection.recv(1_000)
            if not chunk:
                raise ChildProcessError("the forking server has ended")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._connection is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc]
        response = self._read_response(0.0 if wait_flags & os.WNOHANG else None)
        if response is None:
            return 0, 0
        self._connection.shutdown(socket.SHUT_WR)  # the server then reaps the child, and closes its end
        while self._connection.recv(100):
            pass
        self._connection.close()
        return self.pid, response["status"]

    def _internal_poll(self, *arguments: Any, **options: Any) -> int | None:
        if self._connection is None:
            return super()._internal_poll(*arguments, **options)  # type: ignore[misc]
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    with contextlib.suppress(OSError):
                        pid, status = self._try_wait(os.WNOHANG)
                        if pid == self.pid:
                            self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def can_fork(args: Any, env: dict[str, str]) -> bool:
    """Return whether the server can run the command: a plain Python command with this process's startup variables."""
    if not hasattr(os, "pidfd_open") or isinstance(args, str | bytes) or os.fspath(args[0]) != sys.executable:
        return False
    words = [os.fspath(word) for word in args[1:]]
    first_word = next((word for word in words if word != "-u"), "")
    if len(words) < 2 or (first_word.startswith("-") and first_word not in ("-m", "-c")):
        return False
    if "LEEWAY_PARENT" in env:  # a step compares this variable with its real parent, which would be the server
        return False
    ensure_server()
    return select_startup_variables(env) == _servers[os.getpid()][2]


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command as subprocess.run does; options: `capture_output`, `check`, `input`, `timeout`, those of Popen."""
    if options.pop("capture_output", False):
        options.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    timeout, is_checked, text = options.pop("timeout", None), options.pop("check", False), options.pop("input", None)
    if text is not None:
        options["stdin"] = subprocess.PIPE
    with Popen(command, **options) as process:
        try:
            out, err = process.communicate(text, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    if is_checked and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, out, err)
    return subprocess.CompletedProcess(command, process.returncode, out, err)
