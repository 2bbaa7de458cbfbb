"""The operator that runs the step `check_lake`."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator, drop_empty_field


class CheckLakeOperator(StepOperator):
    """Check that no file of the lake is lost or damaged, and restore lost files if that is requested. Idempotent.

    If a file is lost or damaged, and is not restored, the task fails without retries, and its error names the first of
    these files.

    Args:
        repair: whether to restore lost files (templated).
        backup: file of `make backup` to restore from, besides the sources (templated); by default none.
        content: whether to read the content of all files; if not, only their presence and size are checked (templated).
        older: whether to check also the files that only older snapshots need (templated).

    Returns:
        `CheckLakeResult`: tables, snapshots, files, rows, size_bytes, restored, report.
    """

    step = "check_lake"
    fields = ("repair", "backup", "content", "older")

    def __init__(
        self,
        *,
        repair: bool | str = False,
        backup: str = "",
        content: bool | str = True,
        older: bool | str = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.repair, self.backup, self.content, self.older = repair, backup, content, older

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec, without `backup` if it is empty."""
        return drop_empty_field(super().build_spec(), "backup")
