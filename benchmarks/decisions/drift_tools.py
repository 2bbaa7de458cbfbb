"""Compare two Parquet files with Evidently, NannyML and whylogs. uv creates and caches an environment for each tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

UV = Path(__file__).parents[2] / ".leeway" / "uv" / "bin" / "uv"
READ_CODE = "import sys, pandas as pd\nreference, current = map(pd.read_parquet, sys.argv[1:3])\n"
EVIDENTLY_CODE = """
from evidently import Report
from evidently.presets import DataDriftPreset
print(len(Report([DataDriftPreset()]).run(current, reference).dict()["metrics"]))
"""
NANNYML_CODE = """
import nannyml
categories = sys.argv[4].split(",")
methods = {"continuous_methods": ["jensen_shannon"], "categorical_methods": ["jensen_shannon"]}
columns = {"column_names": [*sys.argv[3].split(","), *categories], "treat_as_categorical": categories}
calculator = nannyml.UnivariateDriftCalculator(**columns, **methods).fit(reference)
print(calculator.calculate(current).filter(period="analysis").to_df().shape)
"""
WHYLOGS_CODE = """
import whylogs
from whylogs.viz.drift.column_drift_algorithms import calculate_drift_scores
reference_view, current_view = (whylogs.log(rows).view() for rows in (reference, current))
print(len(calculate_drift_scores(target_view=current_view, reference_view=reference_view)))
"""
TOOL_VARIABLES = {
    "DO_NOT_TRACK": "1",
    "NML_DISABLE_USAGE_LOGGING": "1",
    "WHYLOGS_NO_ANALYTICS": "True",
    "PYTHONPATH": "",
    "VIRTUAL_ENV": "",
    "UV_COMPILE_BYTECODE": "1",
}
"""Variables that turn telemetry off, hide this project's packages, and compile bytecode once."""


@dataclass(frozen=True)
class DriftTool:
    """A drift tool: its packages, and its code, which runs as `python -c CODE REFERENCE CURRENT NUMBERS CATEGORIES`.

    NUMBERS and CATEGORIES are names of columns, separated by commas.
    """

    packages: tuple[str, ...]
    code: str

    def build_command(self, python_code: str) -> list[str]:
        """Return the command that runs Python code in the tool's environment. The first run creates the environment."""
        options = [option for package in self.packages for option in ("--with", package)]
        return [str(UV), "run", "--no-project", "--isolated", "--python", "3.11", *options, "python", "-c", python_code]


DRIFT_TOOLS: Mapping[str, DriftTool] = {
    "Evidently 0.7.23": DriftTool(("evidently==0.7.23", "pandas<3"), READ_CODE + EVIDENTLY_CODE),
    "NannyML 0.13.1": DriftTool(("nannyml==0.13.1", "statsmodels"), READ_CODE + NANNYML_CODE),
    "whylogs 1.6.4": DriftTool(
        ("whylogs[viz]==1.6.4", "numpy<2", "pandas<3", "pyarrow<20", "ipython"), READ_CODE + WHYLOGS_CODE
    ),
}
