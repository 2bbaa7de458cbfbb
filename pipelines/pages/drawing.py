"""Settings that all charts share, and saving a chart as PNG. Equal figures give equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

from pipelines.system.files import replace_file

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

__all__ = ["CANDIDATE", "CHAMPION", "FAINT", "Axes", "plt", "save_figure"]
mpl.rcParams["text.parse_math"] = False  # a dollar sign in a name is not a formula
CANDIDATE, CHAMPION, FAINT = "#1f5fa8", "#e08a1e", "#999999"
"""Colors of the candidate, the champion, and what serves as comparison."""


def save_figure(path: Path, figure: Any, dpi: int = 110) -> Path:
    """Write a figure to a PNG file, close the figure, and return the path."""
    with replace_file(path) as temporary:
        # Without metadata: a date or a version would make equal figures differ.
        figure.savefig(temporary, dpi=dpi, format="png", metadata={"Software": None})
    plt.close(figure)
    return path
