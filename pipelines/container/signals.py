"""Handle SIGTERM and SIGINT: a training script saves its work before it stops, and its parent process waits for that.

This module is part of the training job's bundle, so it imports the standard library only.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
GRACE_S = 120.0
"""Seconds from a signal until the script is killed, in which it can save its work. SageMaker waits as long."""


class Stopped(BaseException):
    """A signal requested a stop of the script. As with KeyboardInterrupt, `except Exception` does not catch it."""


class StopSignal:
    """Handle SIGTERM and SIGINT: raise `Stopped` at once or, after a call of `defer`, only set `exit_code`.

    A second signal changes nothing. A StopSignal must be created in the main thread.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        """Exit code for the signal that was received, 128 + its number; 0 before a signal."""
        self._is_deferred = False
        for number in SIGNALS:
            signal.signal(number, self._handle)
            # Python 3.11 removes handlers before the process has ended: a second signal would change the exit code.
            atexit.register(signal.signal, number, signal.SIG_IGN)

    def defer(self) -> None:
        """Do not raise from now on. The script checks `exit_code` when it is safe to stop, and saves first."""
        self._is_deferred = True

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.exit_code:  # this is a second signal
            return
        self.exit_code = 128 + number
        if not self._is_deferred:
            raise Stopped


class SignalRelay:
    """Pass SIGTERM and SIGINT to the attached child processes, as SIGTERM, while the `with` block runs.

    A child can thus save its work before this process ends: after the block, the last signal is sent to this process.
    A child that does not end is killed `grace_s` seconds after the first signal, or at a second Ctrl-C. Only the main
    thread can use the relay.
    """

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._signal = 0
        self._children: list[subprocess.Popen[Any]] = []
        self._timer: threading.Timer | None = None

    def __enter__(self) -> SignalRelay:
        """Install the handlers."""
        self._previous_handlers = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handlers, and send this process the last signal that was received, if there was one."""
        if self._timer:
            self._timer.cancel()
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        if self._signal:
            os.kill(os.getpid(), self._signal)

    @property
    def has_signal(self) -> bool:
        """Whether a signal was received."""
        return bool(self._signal)

    def attach(self, child: subprocess.Popen[Any]) -> None:
        """Pass every signal from now on to the child, and a signal that was received before."""
        self._children = [earlier_child for earlier_child in self._children if earlier_child.returncode is None]
        self._children.append(child)
        if self._signal:
            self._terminate()

    def _handle(self, number: int, _: FrameType | None) -> None:
        # A second SIGTERM does not kill: a stop of the whole process group sends SIGTERM more than once.
        is_second_interrupt = number == self._signal == signal.SIGINT
        self._signal = number
        if is_second_interrupt:
            self._kill()
        else:
            self._terminate()

    def _terminate(self) -> None:
        for child in self._children:
            child.terminate()
        if self._children and not self._timer:
            self._timer = threading.Timer(self._grace_s, self._kill)
            self._timer.daemon = True
            self._timer.start()

    def _kill(self) -> None:
        for child in self._children:
            child.kill()
