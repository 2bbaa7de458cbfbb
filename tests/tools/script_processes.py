"""Start training scripts as processes that have imported torch already: a start takes a tenth of a second, not five.

A server process imports the libraries once, and forks a child for each script. The children are real processes: they
can be killed, and they get signals. The code under test is imported in the child.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PRELOADED = (
    *("torch", "torch.distributed.checkpoint.hf_storage", "torch.distributed.fsdp", "torch.nn.parallel"),
    *("transformers.models.llama.modeling_llama", "transformers.models.auto.modeling_auto", "peft", "tokenizers"),
)
"""Modules that the server imports; none of them is Leeway's."""
PIPE_BYTES = 4_096
RUN_NAME = "run_script"


class ScriptProcess:
    """A script that runs, with its output in a file, or in a pipe that stops the script until somebody reads.

    Args:
        script: path of the script; its folder is the only one of ours on Python's path.
        arguments: its arguments.
        env: its variables, besides those of the server.
        log: path of its output.
        is_paced: whether the output is a pipe, which `read_until` reads.
    """

    def __init__(
        self, script: Path, arguments: Sequence[str], env: Mapping[str, str], log: Path, is_paced: bool = False
    ) -> None:
        self.log, self._is_paced = log, is_paced
        log.unlink(missing_ok=True)
        if is_paced:
            os.mkfifo(log)
        request = {"script": str(script), "arguments": list(arguments), "env": dict(env), "log": str(log)}
        # The child runs this file by its path: it might find another package `tests`.
        options = {"init_globals": {"REQUEST": request}, "run_name": RUN_NAME}
        self._process = _get_context().Process(target=runpy.run_path, args=(__file__,), kwargs=options)
        self._process.start()
        self._text = ""
        if is_paced:
            self._stream = log.open(encoding="utf-8")
            if sys.platform == "linux":
                fcntl.fcntl(self._stream, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def read_until(self, start: str) -> None:
        """Read the output up to the first line that begins with `start`."""
        for line in self._stream:
            self._text += line
            if line.startswith(start):
                return
        raise AssertionError(f"the script ended before {start!r}: {self._text[-2_000:]}")

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        assert self._process.pid
        os.kill(self._process.pid, number)

    def end(self) -> None:
        """Kill the process if it still runs."""
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def wait(self) -> tuple[int, str]:
        """Wait for the end, and return the exit code (negative: a signal) and the output."""
        if self._is_paced:
            self._text += self._stream.read()
            self._stream.close()
        self._process.join(300)
        code = self._process.exitcode
        assert code is not None, "the script still runs"
        return code, self._text if self._is_paced else self.log.read_text(encoding="utf-8")


def _get_context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def _run(script: str, arguments: list[str], env: dict[str, str], log: str) -> None:
    import torch

    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    os.environ.update(env)
    torch.set_num_threads(1)
    root = Path(__file__).parents[2]
    libraries = [
        path for path in sys.path if path and ("site-packages" in path or not Path(path).is_relative_to(root))
    ]  # the environment may be in the repository
    sys.path[:] = [str(Path(script).parent), *libraries]
    for name in [name for name in sys.modules if name.split(".")[0] == "pipelines"]:
        del sys.modules[name]
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


if __name__ == RUN_NAME:
    _run(**REQUEST)  # type: ignore[name-defined] # noqa: F821
