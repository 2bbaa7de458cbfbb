"""Search lines with regular expressions of clients, in a process of its own, with a limit of its CPU time.

While Python's `re` searches, no other thread of its process runs. An expression such as (a+)+b can search for years, so
it would stop the whole server.
"""

import contextlib
import json
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

LIMIT_S = 10.0
"""Largest CPU time of a search in one block of lines, seconds. Usual expressions need milliseconds."""
_PROGRAM = Path(__file__).with_name("search_process.py")


class PatternSearch:
    """A process that searches; it is started when it is needed. Safe for several threads.

    Args:
        limit_s: Largest CPU time of a search, seconds. An expression that needs more is never searched for again.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._slow_regexes: set[str] = set()

    def find(self, regex: str, lines: Sequence[str]) -> list[str | None]:
        """Return the first group of each match in the lines, in order; None for a group that matched nothing.

        Return [] if the expression has no group or is too slow, or if two attempts fail because the process cannot be
        started or is killed.

        Args:
            regex: A valid regular expression.
            lines: The lines.
        """
        with self._lock:
            if regex in self._slow_regexes:
                return []
            for _ in range(2):  # the process may have been killed before this search
                try:
                    return self._request(regex, lines)
                except (OSError, ValueError) as error:
                    if self._end_process() == -signal.SIGVTALRM:
                        self._slow_regexes.add(regex)
                        problem = f"is ignored from now on: its search in a part of a log took {self._limit_s:g} s"
                        break
                    problem = f"cannot be searched for: {error}"
            log.warning("the Regex %r of a metric %s", regex[:200], problem)
            return []

    def close(self) -> None:
        """End the process. Idempotent; `find` starts another one."""
        with self._lock:
            self._end_process()

    def _request(self, regex: str, lines: Sequence[str]) -> list[str | None]:
        """Send a request to the process, and return its answer. Start the process if none runs.

        Raises:
            OSError: The process cannot be started, or has ended.
            ValueError: The process ended before its answer.
        """
        if self._process is None:
            command = [sys.executable, "-I", "-S", str(_PROGRAM)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        assert self._process.stdin and self._process.stdout, "they are pipes"
        request = {"regex": regex, "lines": list(lines), "limit_s": self._limit_s}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        texts: list[str | None] = json.loads(self._process.stdout.readline())
        return texts

    def _end_process(self) -> int | None:
        """End the process, and return its exit code; None if there is no process."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()  # this does not change the exit code of a process that has just ended by itself
        exit_code = process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # an incomplete request is still in the buffer
                if pipe:
                    pipe.close()
        return exit_code


shared_search = PatternSearch()
"""The search that all jobs of this server use."""
