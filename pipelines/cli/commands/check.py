"""`python -m pipelines check NAME`: answer whether a model is ready, question by question."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.options import JsonOption, ModelArgument
from pipelines.cli.terminal import make_console, write_json

COLORS = {"yes": "green", "no": "red", "not yet": "yellow"}
"""Maps each answer to the color in which it is printed."""


def run_command(
    model: ModelArgument,
    as_json: JsonOption = False,
    known_before: Annotated[
        str,
        typer.Option(
            help="Features that alone predict the label, but are known when the prediction is made; "
            "separated by commas."
        ),
    ] = "",
) -> None:
    """Answer questions about a model: label, leaks, expectations, rows, package, policies, DAGs. Exit code 0 or 2.

    The exit code is 2 if an answer is "no". The answer is "not yet" if something must be done first, such as a
    training.
    """
    from pipelines.dataset_checks.questions import answer_questions

    answers = answer_questions(model, [name.strip() for name in known_before.split(",") if name.strip()])
    if as_json:
        write_json([vars(answer) for answer in answers])
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(title=f"Is {model} ready?")
        for title in ("question", "answer", "reason"):
            table.add_column(title)
        for answer in answers:
            table.add_row(answer.question, Text(answer.outcome, style=COLORS[answer.outcome]), answer.text)
        make_console().print(table)
    if any(answer.outcome == "no" for answer in answers):
        raise SystemExit(2)
