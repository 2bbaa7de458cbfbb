"""The log of the steps: one line for each decision, on stderr."""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("leeway")
"""Logger of the steps."""


def log_to_stderr() -> None:
    """Log lines of the steps to stderr from INFO on, and lines of libraries from WARNING on."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname).1s %(name)s: %(message)s")
    log.setLevel(logging.INFO)
