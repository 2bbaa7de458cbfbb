"""Write an executable `python` that runs in the forking server, for programs that start Python by a path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.tools.forking.client import ensure_server

TEMPLATE = """#!{python} -IS
import array, json, os, signal, socket, sys

words = sys.argv[1:]
program = words[1:] if words[:1] == ["-u"] else words
if not program or (program[0] not in ("-m", "-c") and not program[0].endswith(".py")) or program[:1] == ["-c"]:
    os.execv({python!r}, [{python!r}, *words])
parent = os.environ.pop("LEEWAY_PARENT", "")
if parent:  # the server is the child's parent, so this process ends with the real parent, and ends the child
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGTERM)
connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    connection.connect({path!r})
except OSError:
    os.execv({python!r}, [{python!r}, *words])
child, early = 0, []

def forward(number, _):
    if child:
        os.killpg(child, number)
    else:
        early.append(number)  # the child may run before its number has arrived here

forwarded = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
for number in forwarded:
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, forward)
request = dict(arguments=words, cwd=os.getcwd(), env=dict(os.environ), session=True, tied=True, executable=__file__)
body = json.dumps(request).encode()
connection.sendmsg(
    [len(body).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
)
connection.sendall(body)
responses = connection.makefile()
child = json.loads(responses.readline())["pid"]
for number in early:
    os.killpg(child, number)
status = json.loads(responses.readline())["status"]
if os.WIFSIGNALED(status):
    if os.WTERMSIG(status) != signal.SIGKILL:
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
    os.kill(os.getpid(), os.WTERMSIG(status))
os._exit(os.WEXITSTATUS(status))
"""


def ensure_stand_in() -> str:
    """Return the path of this process's stand-in. Write it if there is none."""
    path = Path(f"{ensure_server()}-bin") / "python"
    return str(path if path.exists() else write_stand_in(path.parent))


def write_stand_in(folder: Path) -> Path:
    """Write the executable `python` into a folder, and return its path.

    The stand-in forks for `[-u] -m MODULE` and `[-u] SCRIPT.py`. Other commands run in the real interpreter. The child
    is in a process group of its own: signals are forwarded to it, and it is killed when the stand-in is killed. Use a
    stand-in in tests of what steps do, not in tests of processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "python"
    path.write_text(TEMPLATE.format(python=os.path.abspath(sys.executable), path=ensure_server()))
    path.chmod(0o755)
    return path
