"""SIGTERM and SIGINT on both sides of a training: the script that saves first, and the process that started it.

Travels in the training job's bundle, so: the standard library only.
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
"""Time that a script has to save, as on SageMaker."""


class Stopped(BaseException):
    """A stop was asked for. Like KeyboardInterrupt, no Exception: what swallows errors must not swallow it."""


class StopSignal:
    """The wish to stop. Raises Stopped at once until `deferred`, then it is looked at, at a safe point, as `code`.

    A second signal changes nothing. Made in the main thread.
    """

    def __init__(self) -> None:
        self.code = 0
        """128 + the signal's number, the exit code; 0 where none came."""
        self._deferred = False
        for number in SIGNALS:
            signal.signal(number, self._came)
            # Python 3.11 takes handlers away before it has ended: a second signal would change the exit code.
            atexit.register(signal.signal, number, signal.SIG_IGN)

    def deferred(self) -> None:
        """From here on nothing is broken into: work has begun that is to be saved first."""
        self._deferred = True

    def _came(self, number: int, _: FrameType | None) -> None:
        if self.code:  # both came at once
            return
        self.code = 128 + number
        if not self._deferred:
            raise Stopped


class SignalRelay:
    """While this block runs a child, SIGTERM and SIGINT go to the child as SIGTERM, and come to this process after it.

    So the child saves, and then this process ends as it would have. A child that does not end is killed after `grace_s`
    seconds, or at a second Ctrl-C. For the main thread.
    """

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._came = 0
        self._child: subprocess.Popen[str] | None = None
        self._patience: threading.Timer | None = None

    def __enter__(self) -> SignalRelay:
        """The signals are caught."""
        self._before = {number: signal.signal(number, self._take) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        """The signals are as before; the one that came is here."""
        if self._patience:
            self._patience.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._came:
            os.kill(os.getpid(), self._came)

    def to(self, child: subprocess.Popen[str]) -> None:
        """The child gets what comes, and what has come already."""
        self._child = child
        if self._came:
            self._pass_on(child)

    def _take(self, number: int, _: FrameType | None) -> None:
        impatient = number == self._came == signal.SIGINT  # a stop of the whole group brings SIGTERM more than once
        self._came = number
        if self._child and impatient:
            self._child.kill()
        elif self._child:
            self._pass_on(self._child)

    def _pass_on(self, child: subprocess.Popen[str]) -> None:
        child.terminate()
        if not self._patience:
            self._patience = threading.Timer(self._grace_s, child.kill)
            self._patience.daemon = True
            self._patience.start()
