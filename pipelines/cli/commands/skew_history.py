"""`python -m pipelines skew_history MODEL`: list the stored comparisons of requests with the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.cli.options import (
    DatasetOption,
    FirstOption,
    JsonOption,
    LastOption,
    ModelArgument,
    find_dataset_of_model,
    parse_days,
)
from pipelines.cli.terminal import write_json, write_line

if TYPE_CHECKING:
    from pipelines.serving.skew.results_table import StoredSkew


def run_command(
    model: ModelArgument,
    first: FirstOption = "",
    last: LastOption = "",
    dataset: DatasetOption = "",
    as_json: JsonOption = False,
) -> None:
    """List what the step `skew` found, oldest partition first: the outcome, and the features and scores that differ.

    "rows" are rows of requests that the lake has, "unmatched" those that it does not have.
    """
    begin, end = parse_days(first, last)
    from pipelines.lake import Lake
    from pipelines.serving.skew.results_table import read_history

    history = read_history(Lake.open(), find_dataset_of_model(model, dataset), model, begin, end)
    if as_json:
        write_json([result._asdict() for result in history])
        return
    for result in history:
        write_line(_format_result(result))
    if not history:
        write_line(f"No requests of {model} were compared with the lake.")


def _format_result(result: StoredSkew) -> str:
    shares = sorted(result.different_shares.items(), key=lambda item: (-item[1], item[0]))
    differences = ", ".join(f"{name} {share:.2%}" for name, share in shares) or "nothing differs"
    counts = f"{result.rows} rows, {result.unmatched} unmatched"
    origin = f"{result.endpoint}  version {result.model_version}"
    return f"{result.partition}  {origin}  {result.outcome}  {counts}: {differences}"
