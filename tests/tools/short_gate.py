"""Make the gate faster for tests that run it many times and do not look at its pictures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from PIL import Image

from pipelines.evaluation.gates import serving
from pipelines.evaluation.report import report


@contextmanager
def shorten_gate() -> Iterator[None]:
    """Replace the report's pictures, and time fewer calls of the package. Both take most of the gate's CPU time.

    The tests of the report, the contract of the steps, the DAG runs and the demo draw the real pictures.
    """
    with patch.object(report, "draw_figures", write_pictures), patch.object(serving, "MAX_TIMING_S", 0.2):
        yield


def write_pictures(folder: Path, _: Any) -> list[Path]:
    """Write pictures of one pixel with the names of the real ones; return their paths."""
    paths = [folder / f"{name}.png" for name in ("curves", "reliability", "parts")]
    for path in paths:
        Image.new("RGB", (1, 1)).save(path)
    return paths
