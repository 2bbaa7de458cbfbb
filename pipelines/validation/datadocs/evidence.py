"""Read the evidence of a validation (the result JSON of Great Expectations) into the values that a page shows.

The file may be damaged or written by another tool: unexpected content is left out, never an error.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.system.files import read_json
from pipelines.validation.datadocs.sentences import describe_expectation, format_value, shorten

Verdict = Literal["passed", "warned", "quarantined", "blocked"]
MAX_EXAMPLES, MAX_VALUE, MAX_TEXT = 3, 80, 300


@dataclass(frozen=True)
class Check:
    """One expectation and its result, as text for a page."""

    kind: str
    words: str
    column: str
    severity: str
    success: bool
    observed: str
    counts: str
    examples: Sequence[str]
    why: str
    error: str


@dataclass(frozen=True)
class Run:
    """One validation of one partition, as a page shows it."""

    dataset: str
    partition: str
    suite: str
    at: dt.datetime
    verdict: Verdict
    rows: int | None
    bad: int
    """Rows that a failed expectation of severity `warning` marks as bad."""
    allowed: float | None
    """Largest share of bad rows with which the partition is published, 0 to 1; None where the evidence lacks it."""
    checks: Sequence[Check]

    @property
    def quarantined(self) -> int:
        """Number of quarantined rows."""
        return self.bad if self.verdict == "quarantined" else 0

    @property
    def failing(self) -> list[Check]:
        """The expectations that failed, the most severe first."""
        order = ("critical", "warning", "info")
        return sorted(
            (check for check in self.checks if not check.success), key=lambda check: order.index(check.severity)
        )

    def summarize(self) -> dict[str, Any]:
        """Summarize the run for an index, as JSON values."""
        return {
            "partition": self.partition,
            "at": self.at.isoformat(timespec="seconds"),
            "verdict": self.verdict,
            "rows": self.rows,
            "quarantined": self.quarantined,
            "evaluated": len(self.checks),
            "failing": [
                {"severity": check.severity, "words": shorten(check.words, MAX_VALUE)} for check in self.failing[:10]
            ],
        }


def read_run(path: Path) -> Run:
    """Read a validation run from its evidence.

    Args:
        path: file DATASET/PARTITION.json.

    Raises:
        DataError: the file does not exist, or is not the JSON of a result. A retry cannot help.
    """
    evidence = _as_mapping(read_json(path, "the evidence of a validation"))
    meta, results = _as_mapping(evidence.get("meta")), evidence.get("results") or []
    checks = [_read_check(_as_mapping(result)) for result in results]
    bad, allowed = _as_int(meta.get("bad_rows")) or 0, meta.get("allowed")
    return Run(
        dataset=path.parent.name,
        partition=path.stem,
        suite=shorten(evidence.get("suite_name") or path.parent.name, MAX_VALUE),
        at=_read_time(meta) or dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC),
        verdict=_find_verdict(meta, checks, bad),
        rows=_find_row_count(meta, results),
        bad=bad,
        allowed=float(allowed) if isinstance(allowed, int | float) else None,
        checks=checks,
    )


def _find_verdict(meta: Mapping[str, Any], checks: Sequence[Check], bad: int) -> Verdict:
    failed = {check.severity for check in checks if not check.success}
    if "critical" in failed or meta.get("verdict") == "blocked":
        return "blocked"
    if bad:
        return "quarantined"
    return "warned" if "warning" in failed else "passed"


def _find_row_count(meta: Mapping[str, Any], results: Sequence[Any]) -> int | None:
    """Return the rows of the partition: from the evidence's meta, or else as an expectation counted them."""
    recorded = _as_int(meta.get("rows"))
    if recorded is not None:
        return recorded
    counts = []
    for result in map(_as_mapping, results):
        figures = _as_mapping(result.get("result"))
        counts.append(_as_int(figures.get("element_count")))
        if "table_row_count" in str(_as_mapping(result.get("expectation_config")).get("type")):
            counts.append(_as_int(figures.get("observed_value")))
    return max((count for count in counts if count is not None), default=None)


def _read_time(meta: Mapping[str, Any]) -> dt.datetime | None:
    text = meta.get("validated_at") or _as_mapping(meta.get("batch_markers")).get("ge_load_time")
    try:
        time = dt.datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def _read_check(evaluated: Mapping[str, Any]) -> Check:
    config, result = _as_mapping(evaluated.get("expectation_config")), _as_mapping(evaluated.get("result"))
    kwargs, meta = _as_mapping(config.get("kwargs")), _as_mapping(config.get("meta"))
    kind, severity = str(config.get("type") or "expectation"), config.get("severity")
    columns = kwargs.get("column") or kwargs.get("column_list") or [kwargs.get("column_A"), kwargs.get("column_B")]
    names = [name for name in columns if name] if isinstance(columns, list) else columns
    is_success = evaluated.get("success") is True
    return Check(
        kind=shorten(kind, MAX_VALUE),
        words=describe_expectation(kind, kwargs),
        column=shorten(names, MAX_VALUE),
        severity=severity if severity in ("critical", "warning", "info") else "critical",
        success=is_success,
        observed=_describe_observed(result),
        counts=_describe_counts(result, is_success),
        examples=_list_examples(result),
        why=shorten(meta.get("why") or "", MAX_TEXT),
        error=_describe_error(_as_mapping(evaluated.get("exception_info"))),
    )


def _describe_observed(result: Mapping[str, Any]) -> str:
    observed, details = result.get("observed_value"), _as_mapping(result.get("details"))
    texts = [shorten(observed, MAX_TEXT)] if observed is not None else []
    return shorten("; ".join([*texts, *([format_value(details)] if details else [])]), MAX_TEXT)


def _describe_counts(result: Mapping[str, Any], is_success: bool) -> str:
    """Describe for how many rows a successful expectation holds, or for how many a failed one does not."""
    unexpected, rows = _as_int(result.get("unexpected_count")), _as_int(result.get("element_count"))
    if unexpected is None or not rows:
        return ""
    counted, missing = rows - unexpected if is_success else unexpected, _as_int(result.get("missing_count"))
    share = "all" if counted == rows else f"{counted:,} ({100 * counted / rows:.3g} %)"
    return f"{share} of {rows:,} rows" + (f"; {missing:,} have no value" if missing else "")


def _list_examples(result: Mapping[str, Any]) -> list[str]:
    """List the first unexpected values; a missing value is not an example."""
    values = result.get("partial_unexpected_list")
    unexpected = [value for value in values if value is not None] if isinstance(values, list) else []
    return [shorten(value, MAX_VALUE) for value in unexpected[:MAX_EXAMPLES]]


def _describe_error(info: Mapping[str, Any]) -> str:
    """Join the messages of `exception_info`: Great Expectations writes one exception, or one for each metric."""
    exceptions = [info] if "raised_exception" in info else [_as_mapping(value) for value in info.values()]
    messages = [str(exception["exception_message"]) for exception in exceptions if exception.get("exception_message")]
    return shorten("; ".join(messages), MAX_TEXT)


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_int(value: object) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return int(value) if is_number else None  # type: ignore[call-overload]
