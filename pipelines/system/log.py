"""Set up the log of the steps: one line for each decision, on stderr."""

from __future__ import annotations

import logging
import sys

from pipelines.escaping import escape

log = logging.getLogger("leeway")
"""Logger of the steps."""


def log_to_stderr() -> None:
    """Log lines of the steps to stderr from INFO on, and lines of libraries from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("%(levelname).1s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    log.setLevel(logging.INFO)


class LineFormatter(logging.Formatter):
    """Format each message as one line: line breaks in it are escaped. A traceback follows on its own lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Format the line of a record, escaped."""
        return escape(super().formatMessage(record))
