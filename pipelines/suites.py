"""Great Expectations suites: reading them from expectations/, and judging a partition by one.

A suite is Great Expectations' own JSON. `severity` acts: `critical` blocks the partition, `warning` and `info` are
reported. Imports great_expectations (2 s), so only `validate` imports this module.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

import great_expectations as gx
import pandas as pd
import pyarrow as pa
from great_expectations.data_context.types.base import ProgressBarsConfig

from pipelines.errors import DataError
from pipelines.files import read_json

# It sets its own level to INFO when it is imported.
logging.getLogger("great_expectations").setLevel(logging.WARNING)

MAX_EXAMPLES = 3
_NULLABLE = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


@dataclass(frozen=True)
class Judgement:
    """How a partition fared. `evidence` is Great Expectations' whole result, as JSON values."""

    evaluated: int
    failures: Sequence[dict[str, Any]]
    evidence: dict[str, Any]

    def of(self, severity: str) -> list[dict[str, Any]]:
        """The failures of one severity."""
        return [one for one in self.failures if one["severity"] == severity]


def load(folder: Path, name: str) -> gx.ExpectationSuite:
    """The suite `folder`/NAME.json.

    Raises:
        DataError: no such file, not JSON, not a suite, or one of its expectations is not valid.
    """
    path = folder / f"{name}.json"
    found = read_json(path, "a suite of Great Expectations")
    try:
        suite = gx.ExpectationSuite(name=name, expectations=found["expectations"])
    except Exception as error:  # GX raises its own, pydantic's and marshmallow's errors here
        raise DataError(f"{path.name} is not a suite of Great Expectations: {error}.") from None
    # GX 1.24 leaves an expectation out that it cannot read, and only logs that: the data would pass unchecked.
    wanted, read = len(found["expectations"]), len(suite.expectations)
    if not wanted or read != wanted:
        raise DataError(
            f"{path.name}: {read} of its {wanted} expectations are valid.", "Look at type, kwargs and severity of each."
        )
    return suite


def judge(suite: gx.ExpectationSuite, rows: pa.Table) -> Judgement:
    """Every expectation of the suite, evaluated on `rows`."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas(suite.name).add_dataframe_asset(suite.name)
    batch = asset.add_batch_definition_whole_dataframe(suite.name).get_batch({"dataframe": _frame(rows)})
    evidence = batch.validate(suite, result_format="SUMMARY").to_json_dict()
    results = evidence["results"]
    return Judgement(len(results), [_failure(one) for one in results if not one["success"]], evidence)


def _frame(rows: pa.Table) -> pd.DataFrame:
    """The rows for Great Expectations: integers stay integers where values are missing."""
    frame: pd.DataFrame = rows.to_pandas(types_mapper=_NULLABLE.get)
    return frame


def _failure(one: dict[str, Any]) -> dict[str, Any]:
    config, result = one["expectation_config"], one.get("result") or {}
    raised = [info.get("exception_message", "") for info in _exceptions(one.get("exception_info") or {})]
    return {
        "expectation": config["type"],
        "severity": config.get("severity") or "critical",
        "column": config["kwargs"].get("column") or ", ".join(config["kwargs"].get("column_list", [])),
        "observed": str(result.get("observed_value", result.get("unexpected_percent", "")))[:80],
        "examples": [str(value)[:80] for value in (result.get("partial_unexpected_list") or [])[:MAX_EXAMPLES]],
        "error": "; ".join(filter(None, raised))[:200],
    }


def _exceptions(info: dict[str, Any]) -> list[dict[str, Any]]:
    """Great Expectations gives one exception, or a mapping of metric to exception."""
    return [info] if "raised_exception" in info else [one for one in info.values() if isinstance(one, dict)]
