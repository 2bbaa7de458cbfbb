"""The table that the demo ends with."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from stack.jobs.training_runs import Row

_COLUMNS = ("as of", "train | holdout", "rows", "data", "job", "AUC", "PR-AUC", "Brier", "verdict", "version")
_NONE = "-"


def table(rows: Sequence[Row]) -> Table:
    """One training run a line: what went in, how good it was, and what was decided."""
    found = Table(title="Training runs", title_justify="left")
    for name in (
        "as of",
        "train | holdout",
        "rows",
        "data",
        "job",
        "AUC",
        "PR-AUC",
        "Brier",
        "verdict",
        "version",
    ):
        found.add_column(name, overflow="fold")
    for row in rows:
        found.add_row(
            row.as_of.isoformat(),
            row.window.replace(" | ", "\n") or _NONE,
            _joined(row.rows_train, row.rows_holdout),
            row.data_version[:12] or _NONE,
            row.training_job or _NONE,
            *(_number(row, name) for name in ("holdout_auc", "holdout_pr_auc", "holdout_brier")),
            row.verdict or "no model",
            " ".join([row.version, *row.aliases]).strip() or _NONE,
        )
    return found


def _joined(*values: str) -> str:
    return "\n".join(f"{int(value):,}" if value.isdigit() else value for value in values if value) or _NONE


def _number(row: Row, name: str) -> str:
    return f"{row.metrics[name]:.4f}" if name in row.metrics else _NONE
