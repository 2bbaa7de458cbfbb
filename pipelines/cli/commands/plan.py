"""`python -m pipelines plan`: what to train on, what it costs and how long it takes, before anything is started."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.cli.options import JsonOption, parse_day
from pipelines.cli.prices import AsOfOption, list_regions
from pipelines.cli.terminal import make_console, write_json, write_line
from pipelines.errors import SpecError
from pipelines.system.log import log


def run_command(
    params: Annotated[str, typer.Option(help="Parameters of a language model, such as 7e9.")] = "",
    tokens: Annotated[str, typer.Option(help="Tokens of its training, all epochs together, such as 1e9.")] = "",
    method: Annotated[str, typer.Option(help="full: all weights are trained (default); lora: low-rank matrices.")] = "",
    precision: Annotated[str, typer.Option(help="mixed (default), bf16 or fp32.")] = "",
    sequence: Annotated[int | None, typer.Option(help="Tokens of a sequence (default: 2048).")] = None,
    optimizer: Annotated[str, typer.Option(help="adam (default), adam8bit, momentum or sgd.")] = "",
    like: Annotated[
        str, typer.Option(metavar="MODEL[@VERSION]", help="Instead: a training like those of a model, or of a job.")
    ] = "",
    model: Annotated[str, typer.Option(help="Model that is planned; its past jobs correct the prediction.")] = "",
    deadline: Annotated[str, typer.Option(help="Until when: 90m, 24h, 3d, a day or a time in UTC.")] = "",
    budget: Annotated[str, typer.Option(metavar="USD", help="Highest cost.")] = "",
    regions: Annotated[
        list[str] | None, typer.Option("--regions", help="AWS regions, separated by commas (default: AWS_REGION).")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="Instance types or patterns such as ml.g5.*, separated by commas.")
    ] = None,
    max_instances: Annotated[int | None, typer.Option(help="Largest number of instances (default: 8).")] = None,
    as_of: AsOfOption = "",
    png: Annotated[str, typer.Option(metavar="FILE", help="Also draw the chart of time and cost.")] = "",
    html: Annotated[str, typer.Option(metavar="FILE", help="Also write an HTML page.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Recommend instances for a training: time, cost on demand and on spot, risk, and why others were left out.

    Nothing is started. What is not known, such as the saving by spot without past jobs, is said, and never invented.
    """
    from pipelines.costs.ledger import Ledger
    from pipelines.planning.recommendation import report
    from pipelines.planning.recommendation.inputs import PlanInputs, build_request
    from pipelines.planning.recommendation.limits import Limits, parse_budget, parse_deadline
    from pipelines.planning.recommendation.recommend import recommend, require_option

    day, now = parse_day("--as-of", as_of) if as_of else None, dt.datetime.now(dt.UTC)
    limits = Limits(parse_deadline(deadline, now), parse_budget(budget))
    size = {
        "parameters": _parse_number("--params", params),
        "tokens": _parse_number("--tokens", tokens),
        **{"method": method, "precision": precision, "sequence": sequence, "optimizer": optimizer},
        **{"model": model, "max_instances": max_instances},
    }
    given: dict[str, Any] = {name: value for name, value in size.items() if value not in (None, "")}
    inputs = PlanInputs(regions=list_regions(_split(regions)), like=like, allow=_split(allow), as_of=day, **given)
    recommendation = recommend(build_request(inputs, limits, Ledger.open().read_rows()))
    if png:
        log.info("chart written to %s", report.draw_front(Path(png), recommendation))
    if html:
        log.info("page written to %s", report.write_page(Path(html), recommendation, now.date()))
    if as_json:
        write_json(recommendation.to_record())
        require_option(recommendation)
        return
    if not recommendation.options:
        for line in report.format_exclusions(recommendation):
            write_line(line)
    require_option(recommendation)
    make_console().print(report.build_table(recommendation, "Options within the limits"))
    for line in (*report.format_lines(recommendation, now.date()), "", "Left out:"):
        write_line(line)
    for line in report.format_exclusions(recommendation):
        write_line(f"- {line}")


def _parse_number(option: str, text: str) -> float | None:
    """Return the number of an option; None if it is empty.

    Raises:
        SpecError: it is not a number. A retry cannot help.
    """
    if not text:
        return None
    try:
        return float(text.replace("_", ""))
    except ValueError:
        raise SpecError(f"{option} {text!r} is not a number.", "Write it as 7e9 or 7000000000.") from None


def _split(values: list[str] | None) -> list[str]:
    return [name.strip() for value in values or [] for name in value.split(",") if name.strip()]
