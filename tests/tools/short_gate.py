"""Make the gate and the drift report faster for tests that run them many times and do not look at the pictures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from PIL import Image

from pipelines.evaluation.gates import serving
from pipelines.evaluation.report import report
from pipelines.monitoring import report as drift_report
from pipelines.pages.drawing import plt


@contextmanager
def shorten_gate() -> Iterator[None]:
    """Replace the report's pictures, and time fewer calls of the package. Both take most of the gate's CPU time.

    The tests of the report, the contract of the steps, the DAG runs and the demo draw the real pictures.
    """
    with patch.object(report, "draw_figures", write_pictures), patch.object(serving, "MAX_TIMING_S", 0.2):
        yield


@contextmanager
def shorten_drift_report() -> Iterator[None]:
    """Build the drift report's pictures, but do not draw them.

    The tests of the report and of an own dataset draw them.
    """
    with patch.object(drift_report, "save_figure", write_pixel):
        yield


def write_pixel(path: Path, figure: Any) -> Path:
    """Write a picture of one pixel, close the figure, and return the path."""
    Image.new("RGB", (1, 1)).save(path)
    plt.close(figure)
    return path


def write_pictures(folder: Path, _: Any) -> list[Path]:
    """Write pictures of one pixel with the names of the real ones; return their paths."""
    paths = [folder / f"{name}.png" for name in ("curves", "reliability", "holdout_parts")]
    for path in paths:
        Image.new("RGB", (1, 1)).save(path)
    return paths
