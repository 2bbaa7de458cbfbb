"""Configure matplotlib for all charts, and save charts as PNG files. Equal figures give byte-identical files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl

from pipelines.system.files import replace_file

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

__all__ = ["CANDIDATE_COLOR", "CHAMPION_COLOR", "REFERENCE_COLOR", "Axes", "plt", "save_figure"]
mpl.rcParams["text.parse_math"] = False  # a dollar sign in a name is not a formula
CANDIDATE_COLOR, CHAMPION_COLOR, REFERENCE_COLOR = "#1f5fa8", "#e08a1e", "#999999"
"""Colors of the candidate, of the champion, and of reference lines."""


def save_figure(path: Path, figure: Any, dpi: int = 110) -> Path:
    """Write a figure to a PNG file, close the figure, and return the path."""
    with replace_file(path) as temporary, warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes. The tables of the page show the whole name.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        # By default matplotlib writes its version into the file, and the bytes would change with the version.
        figure.savefig(temporary, dpi=dpi, format="png", metadata={"Software": None})
    plt.close(figure)
    return path
