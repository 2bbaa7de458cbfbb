"""Send copies of requests to a shadow variant in the background. No client waits for the answers."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

log = logging.getLogger(__name__)

# Largest number of copies that are sent at a time.
THREADS = 8
# Largest number of copies that run or wait at a time. Further copies are dropped: a slow shadow variant must neither
# use up the memory nor delay requests.
MAX_COPIES = 64


class ShadowRequests:
    """Sends copies of requests in threads of its own. Safe for several threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "shadow")
        self._free_copies = threading.BoundedSemaphore(MAX_COPIES)

    def submit(self, send: Callable[[], None]) -> None:
        """Send a copy in the background, unless too many copies run or wait already."""
        if not self._free_copies.acquire(blocking=False):
            log.warning("a request was not copied to the shadow variant, which is too slow")
            return
        try:
            self._threads.submit(self._run, send)
        except RuntimeError:  # the server is shutting down
            self._free_copies.release()

    def close(self) -> None:
        """Stop sending copies: drop those that wait. Do not wait for those that run."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, send: Callable[[], None]) -> None:
        try:
            send()
        except Exception:  # a copy has no client that could get the error
            log.exception("the copy of a request to the shadow variant failed")
        finally:
            self._free_copies.release()
