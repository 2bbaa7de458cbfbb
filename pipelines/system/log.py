"""The log of the steps: one line a decision, to stderr."""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("leeway")


def log_to_stderr() -> None:
    """Lines of the steps go to stderr; those of libraries only from WARNING on."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname).1s %(name)s: %(message)s")
    log.setLevel(logging.INFO)
