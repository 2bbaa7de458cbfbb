"""Ask whether a process lives. It may end between two calls of psutil."""

import psutil


def is_alive(process: int | psutil.Process) -> bool:
    """Return whether a process, or the process with this ID, exists and is no zombie.

    A `psutil.Process` is not mistaken for a later process with the same ID.
    """
    try:
        process = psutil.Process(process) if isinstance(process, int) else process
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
