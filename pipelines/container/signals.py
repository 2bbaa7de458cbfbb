"""SIGTERM and SIGINT on both sides of a training: in the script, which saves first, and in the process that starts it.

Travels in the training job's bundle, so it imports the standard library only.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
GRACE_S = 120.0
"""Seconds that a script has to save its work, as on SageMaker."""


class Stopped(BaseException):
    """A signal asked the script to stop. Like KeyboardInterrupt it is no Exception, so that no handler swallows it."""


class StopSignal:
    """Catches SIGTERM and SIGINT: raises `Stopped` at once, or sets `code` after a call of `defer`.

    A second signal changes nothing. Must be made in the main thread.
    """

    def __init__(self) -> None:
        self.code = 0
        """Exit code for the signal that came (128 + its number); 0 while none came."""
        self._is_deferred = False
        for number in SIGNALS:
            signal.signal(number, self._handle)
            # Python 3.11 removes handlers before it has ended: a second signal would change the exit code.
            atexit.register(signal.signal, number, signal.SIG_IGN)

    def defer(self) -> None:
        """From now on, raise nothing: the script looks at `code` where it is safe to stop, and saves first."""
        self._is_deferred = True

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.code:  # a signal came before
            return
        self.code = 128 + number
        if not self._is_deferred:
            raise Stopped


class SignalRelay:
    """Passes SIGTERM and SIGINT to a child as SIGTERM while the block runs; then raises them in this process.

    So the child saves first, and then this process ends as it would have. A child that does not end is killed after
    `grace_s` seconds, or at a second Ctrl-C. For the main thread.
    """

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._signal = 0
        self._child: subprocess.Popen[str] | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> SignalRelay:
        """Install the handlers."""
        self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handlers, and send this process the signal that came."""
        if self._timer:
            self._timer.cancel()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._signal:
            os.kill(os.getpid(), self._signal)

    def attach(self, child: subprocess.Popen[str]) -> None:
        """Pass to the child every signal that comes from now on, and one that came before."""
        self._child = child
        if self._signal:
            self._terminate(child)

    def _handle(self, number: int, _: FrameType | None) -> None:
        # Only Ctrl-C: stopping the whole process group brings SIGTERM more than once.
        is_second_interrupt = number == self._signal == signal.SIGINT
        self._signal = number
        if self._child and is_second_interrupt:
            self._child.kill()
        elif self._child:
            self._terminate(self._child)

    def _terminate(self, child: subprocess.Popen[str]) -> None:
        child.terminate()
        if not self._timer:
            self._timer = threading.Timer(self._grace_s, child.kill)
            self._timer.daemon = True
            self._timer.start()
