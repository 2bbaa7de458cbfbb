"""Compute the key figures of the platform from the ledger, and compare them with their targets. Changes nothing."""

from __future__ import annotations

from pipelines.contract import Result
from pipelines.costs.figures.key_figure import KeyFigure
from pipelines.costs.figures.targets import Targets
from pipelines.system.log import log


class KeyFiguresSpec(Targets):
    """The jobs to examine, and the targets."""

    month: str = ""
    """Month of the jobs' creation, YYYY-MM; empty: the last 30 days."""
    model: str = ""
    """Only the jobs of this model, and the targets in its parameters; empty: all jobs."""


class KeyFiguresResult(Result):
    """The key figures."""

    period: str
    """The period of the jobs, in words."""
    figures: list[KeyFigure]
    """All key figures, whether they are known or not."""
    missed: list[str]
    """Names of the figures whose target is not met."""
    anomalies: list[str]
    """Days of the last four weeks on which a project cost far more than usual, a sentence each; empty if `month` is
    given."""


def run(spec: KeyFiguresSpec) -> KeyFiguresResult:
    """Compute the key figures.

    Raises:
        SpecError: `month` is not of the form YYYY-MM, or is in the future. A retry cannot help.
        DataError: a row of the ledger is damaged. A retry cannot help.
        ServiceError, ConflictError: the lake does not answer. A retry can help.
    """
    import datetime as dt

    from pipelines.costs.endpoints.ledger import EndpointLedger
    from pipelines.costs.figures.build import build_key_figures
    from pipelines.costs.ledger import Ledger
    from pipelines.costs.periods import build_period
    from pipelines.costs.row_checks import check_rows
    from pipelines.costs.showback.summary import describe_anomalies, find_anomalies

    now = dt.datetime.now(dt.UTC)
    period = build_period(spec.month, now)
    rows, endpoint_rows = (
        [row for row in ledger.read_rows() if spec.model in ("", row["model"])]
        for ledger in (Ledger.open(), EndpointLedger.open())
    )
    check_rows([*rows, *endpoint_rows])
    figures = build_key_figures(rows, period, spec)
    anomalies = {} if spec.month else find_anomalies([*rows, *endpoint_rows], now)
    missed_figures = [figure.name for figure in figures if figure.is_met is False]
    known_count = sum(figure.value is not None for figure in figures)
    log.info(
        "%s: %d of %d key figures are known, %d miss their target",
        period.title,
        known_count,
        len(figures),
        len(missed_figures),
    )
    return KeyFiguresResult(
        period=period.title, figures=figures, missed=missed_figures, anomalies=describe_anomalies(anomalies)
    )
