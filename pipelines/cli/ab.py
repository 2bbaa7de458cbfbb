"""`python -m pipelines ab`: plan an A/B test of two versions of a model, and report which one is better."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.options import DatasetOption, FirstOption, JsonOption, LastOption, find_dataset_of_model, parse_range
from pipelines.cli.terminal import write_json, write_line
from pipelines.errors import SpecError
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.ab_test.report import Report

app = typer.Typer(no_args_is_help=True, help="Plan an A/B test of two versions of a model, and report it.")

ModelOption = Annotated[str, typer.Option(help="Registered model.")]
MetricOption = Annotated[
    str,
    typer.Option(
        help="binary: log_loss, brier; multiclass: log_loss, accuracy; regression: mae, mse (default: the first one)."
    ),
]
AlphaOption = Annotated[
    float, typer.Option(help="Probability of a wrong decision, no matter how many reports are read.")
]


@app.command("plan")
def plan_test(
    model: ModelOption,
    effect: Annotated[float, typer.Option(help="Smallest difference of the metric that the test must detect.")],
    first: FirstOption,
    last: LastOption,
    version: Annotated[
        str, typer.Option(help="Version from whose outcomes the variance of the rows is estimated.")
    ] = "champion",
    share: Annotated[float, typer.Option(help="Share of the rows that the second version will get, 0 to 1.")] = 0.5,
    metric: MetricOption = "",
    alpha: AlphaOption = 0.05,
    power: Annotated[float, typer.Option(help="Probability of detecting the effect.")] = 0.8,
    dataset: DatasetOption = "",
    as_json: JsonOption = False,
) -> None:
    """Estimate how many rows a test needs, from the outcomes of a version on past days."""
    begin, end = parse_range(first, last)
    from pipelines.ab_test.outcome_sums import find_metric, sum_outcomes
    from pipelines.evaluation.statistics.sequential import estimate_rows
    from pipelines.lake import Lake
    from pipelines.registry.versions import Registry

    model_dataset = find_dataset_of_model(model, dataset)
    metric_name, chosen_metric = find_metric(model_dataset, metric)
    version_number = str(Registry.open().find_version(model, version).version)
    (sample,) = sum_outcomes(Lake.open(), model_dataset, model, (version_number,), (begin, end), chosen_metric).samples
    rows = estimate_rows(sample.variance, effect, alpha, power, share)
    rows_per_day = sample.count / len(sample.rows)
    days = rows / rows_per_day
    if as_json:
        write_json({"metric": metric_name, "rows": rows, "rows_per_day": rows_per_day, "days": days})
        return
    write_line(
        f"With {rows:,} rows, a difference of {effect:g} in {metric_name} is detected with a probability of {power:g}."
    )
    write_line(f"These are the rows of about {days:,.1f} days, at {rows_per_day:,.0f} rows a day.")
    write_line(f"Run the report with --planned-rows {rows}.")


@app.command("report")
def report_test(
    model: ModelOption,
    versions: Annotated[str, typer.Option(metavar="A,B", help="The two versions, by number or alias.")],
    first: FirstOption,
    last: LastOption,
    metric: MetricOption = "",
    planned_rows: Annotated[
        int,
        typer.Option(
            min=1, help="Rows, from `ab plan`, for which the interval is narrowest. Do not change it during a test."
        ),
    ] = 10_000,
    alpha: AlphaOption = 0.05,
    online: Annotated[
        bool, typer.Option(help="Read the scores that endpoints returned, which the step `collect` stored.")
    ] = False,
    png: Annotated[str, typer.Option(metavar="FILE", help="PNG file for a chart of the difference by day.")] = "",
    dataset: DatasetOption = "",
    as_json: JsonOption = False,
) -> None:
    """Report which version is better, with an interval that stays valid no matter how many reports are read."""
    begin, end = parse_range(first, last)
    from pipelines.ab_test.outcome_sums import find_metric, sum_outcomes
    from pipelines.ab_test.report import build_report, draw_chart, format_lines
    from pipelines.lake import Lake

    model_dataset = find_dataset_of_model(model, dataset)
    metric_name, chosen_metric = find_metric(model_dataset, metric)
    version_pair = _find_versions(model, versions)
    sums = sum_outcomes(Lake.open(), model_dataset, model, version_pair, (begin, end), chosen_metric, online)
    report = build_report(model, version_pair, metric_name, chosen_metric, sums, alpha, planned_rows)
    if as_json:
        write_json(_build_record(report))
    else:
        for line in format_lines(report):
            write_line(line)
    if png:
        log.info("chart written to %s", draw_chart(Path(png), report))


def _find_versions(model: str, versions: str) -> tuple[str, str]:
    """Return the numbers of the two versions that a text A,B names by their numbers or aliases.

    Raises:
        SpecError: the text does not name two different versions. A retry cannot help.
    """
    from pipelines.registry.versions import Registry

    selectors = [part.strip() for part in versions.split(",")]
    if len(selectors) != 2 or not all(selectors):
        raise SpecError(f"--versions {versions!r} does not name two versions.", "Give two, such as 3,4 or champion,4.")
    registry = Registry.open()
    first, second = (str(registry.find_version(model, selector).version) for selector in selectors)
    if first == second:
        raise SpecError(f"--versions {versions!r} names version {first} twice.", "Give two different versions.")
    return first, second


def _build_record(report: Report) -> dict[str, object]:
    """Build the values of the report's JSON."""
    return {
        "model": report.model,
        "versions": report.versions,
        "metric": report.metric,
        "outcome": report.outcome,
        "missing": report.missing_data,
        "difference": asdict(report.difference),
        "paired": report.sums.is_paired,
        "rows": report.sums.row_counts,
        "first": report.sums.days[0],
        "last": report.sums.days[-1],
    }
