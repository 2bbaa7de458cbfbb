"""`python -m pipelines STEP`: the door that `dvc repro`, the Airflow operators and people share.

A step is a process of seconds, most of them imports, and a year has 730: the collector looks less often through what
they left, and the end does not take every object apart. What was registered to be done at the end is done before.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

NEW_OBJECTS = 50_000
"""Between two looks of the collector (Python: 700). Imports make some 500,000, of which none can go."""
code = 1


def _leave() -> None:
    """Ends the process without the interpreter's own end, which frees object by object what the system frees whole."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


atexit.register(_leave)  # the first to be registered is the last to be called
gc.set_threshold(NEW_OBJECTS)

from pipelines.cli.app import main  # noqa: E402

try:
    main()
    code = 0
except SystemExit as ended:
    code = int(ended.code or 0) if not isinstance(ended.code, str) else 1
