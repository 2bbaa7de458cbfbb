"""`python -m pipelines costs kpi`: compare the key figures of the platform with their targets."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines import params
from pipelines.cli.options import JsonOption
from pipelines.cli.terminal import make_console, write_json, write_line
from pipelines.settings import settings

MonthOption = Annotated[
    str, typer.Option(metavar="YYYY-MM", help="Month of the jobs' creation (default: the last 30 days).")
]


def show_key_figures(
    month: MonthOption = "",
    model: Annotated[str, typer.Option(help="Only jobs of this model, with its targets (default: all jobs).")] = "",
    as_json: JsonOption = False,
) -> None:
    """Show the key figures of the platform, each with its target, the number of jobs, and how it is computed.

    The targets are in section `key_figures` of params.yaml. Those in the parameters of the model replace them.
    """
    from pipelines.costs.figures.table import build_key_figure_table
    from pipelines.steps.key_figures import KeyFiguresSpec, run

    has_parameters = model in params.list_model_names(settings().project)
    targets = params.load_section(settings().project, "key_figures", model if has_parameters else "")
    result = run(KeyFiguresSpec.parse({**targets, "month": month, "model": model}, "the key figures"))
    if as_json:
        write_json(result.model_dump(mode="json"))
        return
    make_console().print(build_key_figure_table(result.figures, result.period))
    for line in result.anomalies:
        write_line(f"Anomaly: {line}.")
    unknown_count = sum(figure.target is not None and figure.value is None for figure in result.figures)
    ending = f", {unknown_count} with an unknown figure" if unknown_count else ""
    write_line(
        f"Targets: {sum(figure.is_met is True for figure in result.figures)} met, {len(result.missed)} not met{ending}."
    )
