"""Load a model with its own inference.py, and answer GET /ping and POST /invocations.

This is a stand-alone program: it is copied into an instance's folder tree, with the modules of drydock that it imports,
and needs only the standard library. It replaces the model server of SageMaker's containers. Once the model is loaded,
it listens, and writes the number of its port to a file. One request at a time reaches the model, as in a worker of
SageMaker's model servers. If the model does not answer a request in time, the process logs the stack of each thread.
Then it ends, as those workers do, and drydock starts another process.

A standby process imports the libraries that an earlier process of the same model has imported, and waits until drydock
opens a pipe. Then it loads the model.
"""

# ruff: noqa: T201

import faulthandler
import gc
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType

from drydock.host.library_imports import import_modules, read_imports, write_imports
from drydock.host.model_code import ModelAnswer, Predict, load_model
from drydock.host.request_context import CUSTOM_ATTRIBUTES

PROGRAM_FILE = "serve.py"
"""Name of this program in the instance's code folder."""
PORT_FILE = "port"
"""Name of the file with the port, in the code folder."""
TIMEOUT_HEADER = "X-Drydock-Timeout"
"""Header of a request: seconds within which the model must answer; no limit if it is missing."""
DEFAULT_TYPE = "application/json"
NICENESS_VARIABLE = "DRYDOCK_LOADING_NICENESS"
"""Environment variable with the niceness while the model is loaded: 0 is the usual priority."""
STANDBY_VARIABLE = "DRYDOCK_STANDBY"
"""Environment variable of a standby process: its niceness while it imports the libraries."""
IMPORTS_FILE = "imports.json"
"""Name of the file with the names of the libraries' modules, in the code folder."""
READY_FILE = "ready"
"""Name of the file that says that the libraries are imported, in the code folder."""
ADDRESS_VARIABLE = "DRYDOCK_ADDRESS"
"""Environment variable with the address to listen on, HOST:PORT; any free port if the port is 0."""
AUTOGROUP_FILE = Path("/proc/self/autogroup")
"""Linux's file with the priority of the process's session, as a niceness. Missing on other systems."""
AUTOGROUP_TRIES, AUTOGROUP_PAUSE_S = 50, 0.1
"""Number of tries of a write, and seconds between them: Linux allows all processes without privileges together only ten
writes to such files a second."""
LOAD_PIPE = "load"
"""Name of the pipe, in the code folder. When it is opened for writing, a standby process loads the model."""


class ModelServer(ThreadingHTTPServer):
    """An HTTP server that answers requests with a model.

    Args:
        predict: Answers one request.
    """

    daemon_threads = True

    def __init__(self, predict: Predict) -> None:
        host, _, port = os.environ[ADDRESS_VARIABLE].rpartition(":")
        super().__init__((host, int(port)), Handler)
        self.predict, self.model_lock = predict, threading.Lock()


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, which stays open between requests."""

    server: ModelServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # the head and the body of a response are sent in one packet

    def do_GET(self) -> None:
        """Answer /ping: the model is loaded, since the server listens."""
        self.answer(200 if self.path == "/ping" else 404, b"", "text/plain")

    def do_POST(self) -> None:
        """Answer /invocations."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/invocations":
            return self.answer(404, b"", "text/plain")
        content_type = self.headers.get("Content-Type") or DEFAULT_TYPE
        accept = self.headers.get("Accept", "*/*")
        try:
            with self.server.model_lock:
                if self.is_abandoned():  # the client left while the request waited for the model
                    self.close_connection = True
                    return
                answer = self.predict(body, content_type, DEFAULT_TYPE if accept == "*/*" else accept)
            answer.content_type.encode("latin-1")  # otherwise it could not be a header
        except BaseException as error:  # the process continues, whatever the model's code raises
            return self.answer_error(error)
        self.answer(answer.status, answer.body, " ".join(answer.content_type.split()), answer.custom_attributes)

    def predict(self, body: bytes, content_type: str, accept: str) -> ModelAnswer:
        """Call the model. If it does not return in time, log the stacks of all threads, and end the process.

        faulthandler does so in a thread that does not need the GIL, which a hanging C function may hold.
        """
        if limit := self.headers.get(TIMEOUT_HEADER):
            faulthandler.dump_traceback_later(float(limit), exit=True)
        headers = {name: value for name, value in self.headers.items() if name != TIMEOUT_HEADER}
        try:
            return self.server.predict(body, content_type, accept, headers)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def is_abandoned(self) -> bool:
        """Return whether the client has closed the connection: it does not wait for the answer any more."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def answer_error(self, error: BaseException) -> None:
        """Answer with an error of the model's code. The error's `status_code` is the HTTP status.

        Without a `status_code` from 400 to 599, the status is 500.
        """
        status = getattr(error, "status_code", 500)
        is_error_status = isinstance(status, int) and 400 <= status < 600
        text = _format_error(error)
        if not is_error_status or status >= 500:
            print("".join(traceback.format_tb(error.__traceback__)), text, sep="", file=sys.stderr, flush=True)
        content = {"error": text if not is_error_status or status >= 500 else text.partition(": ")[2]}
        self.answer(status if is_error_status else 500, json.dumps(content).encode(), "application/json")

    def answer(self, status: int, body: bytes, content_type: str, custom_attributes: str = "") -> None:
        """Send a response."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if custom_attributes:
            self.send_header(CUSTOM_ATTRIBUTES, custom_attributes)
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing: drydock counts the requests."""


def _format_error(error: BaseException) -> str:
    """Return the type and the text of an exception. Its text may raise an exception, too."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}: its text cannot be read"


def main(base: Path) -> int:
    """Load the model, and serve it until SIGTERM. Return the exit code: 1 if the model cannot be loaded, else 0.

    Args:
        base: The root of the instance's folder tree.
    """
    known_modules, code = frozenset(sys.modules), base / "code"
    loaded_servers: queue.SimpleQueue[ModelServer] = queue.SimpleQueue()
    # A thread inherits the priority of the thread that starts it. So the thread that answers requests starts before the
    # priority is lowered for the loading of the model.
    thread = threading.Thread(target=lambda: loaded_servers.get().serve_forever(0.1), daemon=True)
    thread.start()
    if standby_niceness := os.environ.get(STANDBY_VARIABLE):
        stand_by(code, base / "model" / "code", int(standby_niceness))
    niceness = int(os.environ.get(NICENESS_VARIABLE, "0"))
    lower_priority(niceness)
    try:
        predict = load_model(base / "model")
    except (Exception, SystemExit):
        traceback.print_exc()
        return 1
    restore_priority(niceness)
    write_imports(code / IMPORTS_FILE, known_modules, base)
    # The model's objects live as long as the process. Garbage collections that skip them do not delay requests.
    gc.collect()
    gc.freeze()
    with ModelServer(predict) as server:
        end_at_sigterm(server)
        write_file(code / PORT_FILE, str(server.server_address[1]))
        print("serving the model")
        loaded_servers.put(server)
        thread.join()
        with server.model_lock:  # wait until the model has answered the request in progress
            return 0


def stand_by(code: Path, model_code: Path, niceness: int) -> None:
    """Import the libraries, and wait until drydock opens the pipe.

    Args:
        code: The folder of this program's files.
        model_code: The folder of the model's code. It is first on the path here, as in `load_model`: a module of the
            model may have the name of a library.
        niceness: Niceness of the imports. They run in a thread of their own, so that the priority of this thread stays.
    """

    def run() -> None:
        lower_priority(niceness)
        import_modules(read_imports(code / IMPORTS_FILE))

    sys.path.insert(0, str(model_code))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    restore_priority(niceness)
    sys.path.remove(str(model_code))
    write_file(code / READY_FILE, "")
    (code / LOAD_PIPE).open("rb").close()  # waits until drydock opens it for writing


def lower_priority(niceness: int) -> None:
    """Lower the priority of this thread and of the process's session, on Linux only.

    On other systems, the priority of the whole process would become lower, and stay so. Where Linux divides the
    processors among the sessions (sched(7), "The autogroup feature"), the priority of a thread has an effect only
    within its session. Elsewhere, as in a container, only the thread's priority has an effect. drydock starts each
    instance in a session of its own.

    Args:
        niceness: The niceness; 0 changes nothing.
    """
    if niceness and sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
        _set_session_priority(niceness)


def restore_priority(niceness: int) -> None:
    """Undo `lower_priority` for the session. The thread's priority stays low: only root could raise it."""
    if niceness and sys.platform == "linux":
        _set_session_priority(0)


def _set_session_priority(niceness: int) -> None:
    for _ in range(AUTOGROUP_TRIES if AUTOGROUP_FILE.exists() else 0):
        try:
            AUTOGROUP_FILE.write_text(str(niceness), encoding="ascii")
        except BlockingIOError:
            time.sleep(AUTOGROUP_PAUSE_S)
            continue
        except OSError:
            pass  # in some containers, nothing below /proc can be written: the priority of the thread is enough there
        return


def end_at_sigterm(server: ModelServer) -> None:
    """End `serve_forever` at SIGTERM. `shutdown` waits until `serve_forever` has ended, so another thread calls it."""

    def stop(_: int, __: FrameType | None) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)


def write_file(path: Path, text: str) -> None:
    """Write a file atomically: when it exists, it is complete."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main(Path(os.environ["SAGEMAKER_BASE_DIR"])))
