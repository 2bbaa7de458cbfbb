"""`python -m pipelines plan`: recommend instances for a training, with their time and cost. Nothing is started."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.options import JsonOption, parse_day, parse_output_path, refuse_empty_options
from pipelines.cli.prices import list_regions
from pipelines.cli.terminal import make_console, write_json, write_line
from pipelines.errors import SpecError
from pipelines.planning.recommendation.data_size import parse_data_size
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.planning.recommendation.options import Recommendation


ParamsOption = Annotated[str, typer.Option(help="Parameters of a language model, such as 7e9.")]
TokensOption = Annotated[str, typer.Option(help="Tokens of the training, all epochs together, such as 1e9.")]
MethodOption = Annotated[str, typer.Option(help="full: all weights are trained (default); lora: low-rank matrices.")]
PrecisionOption = Annotated[str, typer.Option(help="mixed (default), bf16, or fp32 without TF32.")]
SequenceOption = Annotated[int | None, typer.Option(help="Tokens of a sequence (default: 2048).")]
OptimizerOption = Annotated[str, typer.Option(help="adam (default), adam8bit, momentum or sgd.")]
LikeOption = Annotated[
    str,
    typer.Option(
        metavar="MODEL[@VERSION]|JOB", help="In place of --params: use the size of past trainings of this model or job."
    ),
]
DataSizeOption = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="With --like: size of the training data, such as 3GiB or 500MB (default: that of the newest past job).",
    ),
]
PlannedModelOption = Annotated[str, typer.Option(help="Model to train; its past jobs correct the prediction.")]
DeadlineOption = Annotated[str, typer.Option(help="Deadline: 90m, 24h, 3d, or a day or a time in UTC.")]
BudgetOption = Annotated[str, typer.Option(metavar="USD", help="Highest cost of the training.")]
PlanRegionsOption = Annotated[
    list[str] | None, typer.Option("--regions", help="AWS regions, separated by commas (default: AWS_REGION).")
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(help="Consider only these instance types, or patterns such as ml.g5.*; separated by commas."),
]
MaxInstancesOption = Annotated[int | None, typer.Option(help="Largest number of instances (default: 8).")]
PlanDayOption = Annotated[
    str,
    typer.Option(
        "--as-of", metavar="YYYY-MM-DD", help="Use only the prices and the ended jobs that were known on that day."
    ),
]
PngOption = Annotated[str, typer.Option(metavar="FILE", help="Also draw the chart of time and cost.")]
HtmlOption = Annotated[str, typer.Option(metavar="FILE", help="Also write an HTML page.")]


def run_command(
    context: typer.Context,
    params: ParamsOption = "",
    tokens: TokensOption = "",
    method: MethodOption = "",
    precision: PrecisionOption = "",
    sequence: SequenceOption = None,
    optimizer: OptimizerOption = "",
    like: LikeOption = "",
    data_size: DataSizeOption = "",
    model: PlannedModelOption = "",
    deadline: DeadlineOption = "",
    budget: BudgetOption = "",
    regions: PlanRegionsOption = None,
    allow: AllowOption = None,
    max_instances: MaxInstancesOption = None,
    as_of: PlanDayOption = "",
    png: PngOption = "",
    html: HtmlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Recommend instances for a training: time, cost on demand and on spot, risk, and why other types were left out.

    Nothing is started. If a number is not known, the output says so: for example, the saving by spot without past jobs.
    """
    refuse_empty_options(context)
    _check_output_paths(png, html)
    day, now = parse_day("--as-of", as_of) if as_of else None, dt.datetime.now(dt.UTC)
    values = {
        "parameters": _parse_number("--params", params),
        "tokens": _parse_number("--tokens", tokens),
        **{"method": method, "precision": precision, "sequence": sequence, "optimizer": optimizer},
        **{"model": model, "max_instances": max_instances},
        "data_bytes": parse_data_size("--data-size", data_size),
    }
    options: dict[str, Any] = {name: value for name, value in values.items() if value not in (None, "")}
    regions_and_types = {"regions": list_regions(_split(regions), "--regions"), "allow": _split(allow)}
    recommendation = _plan({**regions_and_types, "past_jobs_of": like, "as_of": day, **options}, deadline, budget, now)
    _write_outputs(recommendation, png, html, as_json, now.date())


def _check_output_paths(png: str, html: str) -> None:
    """Check the paths of the chart and the page, before the plan is made.

    Raises:
        SpecError: a path cannot be a file, or both paths are the same. A retry cannot help.
    """
    paths = [parse_output_path(option, text) for option, text in (("--png", png), ("--html", html)) if text]
    if len({path.absolute() for path in paths}) < len(paths):
        raise SpecError("--png and --html are the same file.", "Give two files.")


def _plan(inputs: Mapping[str, Any], deadline: str, budget: str, now: dt.datetime) -> Recommendation:
    from pipelines.costs.ledger import Ledger
    from pipelines.planning.recommendation.inputs import PlanInputs, build_request
    from pipelines.planning.recommendation.limits import Limits, parse_budget, parse_deadline
    from pipelines.planning.recommendation.recommend import recommend

    limits = Limits(parse_deadline(deadline, now), parse_budget(budget))
    return recommend(build_request(PlanInputs(**inputs), limits, Ledger.open().read_rows()))


def _write_outputs(recommendation: Recommendation, png: str, html: str, as_json: bool, today: dt.date) -> None:
    """Write the chart and the page, if they are requested. Then write JSON, or a table and sentences.

    Raises:
        DataError: no option is within the limits. The message names the nearest options. A retry cannot help.
    """
    from pipelines.planning.recommendation import report
    from pipelines.planning.recommendation.recommend import require_option

    if png:
        log.info("chart written to %s", report.draw_front(Path(png), recommendation))
    if html:
        log.info("page written to %s", report.write_page(Path(html), recommendation, today))
    if as_json:
        write_json(recommendation.to_record(), is_strict=True)
    elif recommendation.options:
        make_console().print(report.build_table(recommendation, "Options within the limits"))
        exclusions_heading = ["", "Left out:"] if recommendation.exclusions else []
        for line in (*report.format_lines(recommendation, today), *exclusions_heading):
            write_line(line)
    if not as_json:
        for line in report.format_exclusions(recommendation):
            write_line(f"- {line}")
    require_option(recommendation)


def _parse_number(option: str, text: str) -> float | None:
    """Return the number of an option; None if the text is empty.

    Raises:
        SpecError: the text is not a number. A retry cannot help.
    """
    if not text:
        return None
    try:
        return float(text.replace("_", ""))
    except ValueError:
        raise SpecError(f"{option} {text!r} is not a number.", "Write it as 7e9 or 7000000000.") from None


def _split(values: list[str] | None) -> list[str]:
    return [name.strip() for value in values or [] for name in value.split(",") if name.strip()]
