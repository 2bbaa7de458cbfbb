"""End a process when its parent ends, even if the parent is killed with SIGKILL. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Option of prctl(2): the signal that this process gets when its parent ends."""
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
"""The C library. It is loaded at the import, so that a child may call it between fork and exec."""


def end_with_parent(parent: int) -> None:
    """Make the kernel send SIGTERM to this process when its parent ends; send it now if the parent has ended already.

    On systems other than Linux, this process gets the signal only if its parent has ended already.

    Args:
        parent: id of the process that started this one.
    """
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
