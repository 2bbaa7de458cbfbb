"""Read the evidence of a validation (the result JSON of Great Expectations) into the values that a page shows.

The file may have been written by another tool. Content that is not as expected is left out; it is not an error.
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
MAX_EXAMPLES, MAX_FAILURES = 3, 10
"""Maximum number of examples of a check, and of failed expectations in a summary."""
MAX_VALUE_CHARS, MAX_TEXT_CHARS = 80, 300
"""Maximum number of characters of a value, and of a longer text such as an error."""
_ENGINES = {"duckdb": "DuckDB", "gx": "Great Expectations"}


@dataclass(frozen=True)
class CheckText:
    """One expectation and its result, as text for a page."""

    kind: str
    """Type of the expectation in Great Expectations."""
    requirement: str
    """What the expectation requires, in one sentence."""
    column: str
    severity: str
    success: bool
    observed: str
    """Observed value; empty if there is none."""
    counts_text: str
    """How many rows meet the expectation or, if it failed, how many do not; empty if the number is not known."""
    examples: Sequence[str]
    reason: str
    """Reason that the suite gives for the expectation; empty if it gives none."""
    error: str
    """Why the expectation could not be evaluated; empty if it was evaluated."""


@dataclass(frozen=True)
class ValidationRun:
    """One validation of one partition, as a page shows it."""

    dataset: str
    partition: str
    suite: str
    validated_at: dt.datetime
    verdict: Verdict
    rows: int | None
    bad_rows: int
    """Number of rows that a failed expectation of severity `warning` rejects."""
    max_quarantined_fraction: float | None
    """Largest share of bad rows that a published partition may have, 0 to 1; None if the evidence lacks it."""
    checks: Sequence[CheckText]
    judged_by: str = ""
    """Engines that judged the expectations, in words; empty if the evidence lacks them."""
    differences: Sequence[str] = ()
    """Text about each expectation that the two engines judge differently, with both answers; at most ten."""

    @property
    def quarantined(self) -> int:
        """Number of quarantined rows."""
        return self.bad_rows if self.verdict == "quarantined" else 0

    @property
    def failed_checks(self) -> list[CheckText]:
        """The expectations that failed, the most severe first."""
        order = ("critical", "warning", "info")
        return sorted(
            (check for check in self.checks if not check.success), key=lambda check: order.index(check.severity)
        )

    def summarize(self) -> dict[str, Any]:
        """Summarize the run for an index, as JSON values."""
        return {
            "partition": self.partition,
            "at": self.validated_at.isoformat(timespec="seconds"),
            "verdict": self.verdict,
            "rows": self.rows,
            "quarantined": self.quarantined,
            "evaluated": len(self.checks),
            "failures": [
                {"severity": check.severity, "words": shorten(check.requirement, MAX_VALUE_CHARS)}
                for check in self.failed_checks[:MAX_FAILURES]
            ],
        }


def read_run(path: Path) -> ValidationRun:
    """Read a validation run from its evidence.

    Args:
        path: file of the evidence, DATASET/PARTITION.json.

    Raises:
        DataError: the file does not exist, or is not the JSON of a result. A retry cannot help.
    """
    evidence = _read_mapping(read_json(path, "the evidence of a validation"))
    meta, results = _read_mapping(evidence.get("meta")), evidence.get("results")
    results = results if isinstance(results, list) else []
    checks = [_read_check(_read_mapping(result)) for result in results]
    bad_rows, max_fraction = _read_int(meta.get("bad_rows")) or 0, meta.get("allowed")
    return ValidationRun(
        dataset=path.parent.name,
        partition=path.stem,
        suite=shorten(evidence.get("suite_name") or path.parent.name, MAX_VALUE_CHARS),
        validated_at=_read_time(meta) or dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC),
        verdict=_derive_verdict(meta, checks, bad_rows),
        rows=_find_row_count(meta, results),
        bad_rows=bad_rows,
        max_quarantined_fraction=float(max_fraction) if isinstance(max_fraction, int | float) else None,
        checks=checks,
        judged_by=_describe_engines(meta),
        differences=_list_differences(meta),
    )


def _describe_engines(meta: Mapping[str, Any]) -> str:
    """Describe how many expectations each engine judged, how many both judged, and whether their results agree."""
    counts, verification = _read_mapping(meta.get("engines")), _read_mapping(meta.get("verification"))
    engines = [f"{_ENGINES[name]} ({counts[name]})" for name in _ENGINES if _read_int(counts.get(name))]
    parts = [f"by {' and '.join(engines)}"] if engines else []
    if verification:
        version = shorten(verification.get("great_expectations"), MAX_VALUE_CHARS)
        differences = verification.get("differences")
        count = len(differences) if isinstance(differences, list) else 0
        result = f"{count} of them differently" if count else "all of them with the same answers"
        compared_count = _read_int(verification.get("compared"))
        parts.append(f"{compared_count} expectations by both (Great Expectations {version}), {result}")
    return f"Judged {'; '.join(parts)}" if parts else ""


def _list_differences(meta: Mapping[str, Any]) -> list[str]:
    """Describe both answers to each expectation that the engines judge differently."""
    differences = _read_mapping(meta.get("verification")).get("differences")
    if not isinstance(differences, list):
        return []
    return [_describe_difference(_read_mapping(difference)) for difference in differences[:MAX_FAILURES]]


def _describe_difference(difference: Mapping[str, Any]) -> str:
    checks = {name: _read_check(_read_mapping(difference.get(name))) for name in _ENGINES}
    answers = [
        f"{_ENGINES[name]}: {'holds' if check.success else 'fails'} "
        f"{check.error or check.observed or check.counts_text}"
        for name, check in checks.items()
    ]
    return shorten(f"{checks['duckdb'].requirement} - {'; '.join(answers)}", MAX_TEXT_CHARS)


def _derive_verdict(meta: Mapping[str, Any], checks: Sequence[CheckText], bad_rows: int) -> Verdict:
    """Derive the verdict from the failed expectations and the bad rows.

    The verdict in `meta` is used only if it is `blocked`: a partition with too many bad rows is blocked, too, and the
    failed expectations do not show that.
    """
    failed_severities = {check.severity for check in checks if not check.success}
    if "critical" in failed_severities or meta.get("verdict") == "blocked":
        return "blocked"
    if bad_rows:
        return "quarantined"
    return "warned" if "warning" in failed_severities else "passed"


def _find_row_count(meta: Mapping[str, Any], results: Sequence[Any]) -> int | None:
    """Return the number of rows: from the evidence's meta, or else the largest number that an expectation counted."""
    row_count = _read_int(meta.get("rows"))
    if row_count is not None:
        return row_count
    counts = []
    for result in map(_read_mapping, results):
        numbers = _read_mapping(result.get("result"))
        counts.append(_read_int(numbers.get("element_count")))
        if "table_row_count" in str(_read_mapping(result.get("expectation_config")).get("type")):
            counts.append(_read_int(numbers.get("observed_value")))
    return max((count for count in counts if count is not None), default=None)


def _read_time(meta: Mapping[str, Any]) -> dt.datetime | None:
    text = meta.get("validated_at") or _read_mapping(meta.get("batch_markers")).get("ge_load_time")
    try:
        time = dt.datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def _read_check(gx_result: Mapping[str, Any]) -> CheckText:
    config, result = _read_mapping(gx_result.get("expectation_config")), _read_mapping(gx_result.get("result"))
    kwargs, meta = _read_mapping(config.get("kwargs")), _read_mapping(config.get("meta"))
    kind, severity = str(config.get("type") or "expectation"), config.get("severity")
    columns = kwargs.get("column") or kwargs.get("column_list") or [kwargs.get("column_A"), kwargs.get("column_B")]
    names = [name for name in columns if name] if isinstance(columns, list) else columns
    success = gx_result.get("success") is True
    return CheckText(
        kind=shorten(kind, MAX_VALUE_CHARS),
        requirement=describe_expectation(kind, kwargs),
        column=shorten(names, MAX_VALUE_CHARS),
        severity=severity if severity in ("critical", "warning", "info") else "critical",
        success=success,
        observed=_describe_observed_value(result),
        counts_text=_describe_counts(result, success),
        examples=_list_examples(result),
        reason=shorten(meta.get("why") or "", MAX_TEXT_CHARS),
        error=_describe_error(_read_mapping(gx_result.get("exception_info"))),
    )


def _describe_observed_value(result: Mapping[str, Any]) -> str:
    observed_value, details = result.get("observed_value"), _read_mapping(result.get("details"))
    texts = [shorten(observed_value, MAX_TEXT_CHARS)] if observed_value is not None else []
    return shorten("; ".join([*texts, *([format_value(details)] if details else [])]), MAX_TEXT_CHARS)


def _describe_counts(result: Mapping[str, Any], success: bool) -> str:
    """Describe how many rows meet a successful expectation, or how many rows do not meet a failed one."""
    unexpected_count, row_count = _read_int(result.get("unexpected_count")), _read_int(result.get("element_count"))
    if unexpected_count is None or not row_count:
        return ""
    count = row_count - unexpected_count if success else unexpected_count
    missing_count = _read_int(result.get("missing_count"))
    share = "all" if count == row_count else f"{count:,} ({100 * count / row_count:.3g} %)"
    return f"{share} of {row_count:,} rows" + (f"; {missing_count:,} have no value" if missing_count else "")


def _list_examples(result: Mapping[str, Any]) -> list[str]:
    """List the first unexpected values; a missing value is not an example."""
    values = result.get("partial_unexpected_list")
    unexpected_values = [value for value in values if value is not None] if isinstance(values, list) else []
    return [shorten(value, MAX_VALUE_CHARS) for value in unexpected_values[:MAX_EXAMPLES]]


def _describe_error(info: Mapping[str, Any]) -> str:
    """Join the messages of `exception_info`, which has one exception, or one for each metric."""
    exceptions = [info] if "raised_exception" in info else [_read_mapping(value) for value in info.values()]
    messages = [str(exception["exception_message"]) for exception in exceptions if exception.get("exception_message")]
    return shorten("; ".join(messages), MAX_TEXT_CHARS)


def _read_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_int(value: object) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return int(value) if is_number else None  # type: ignore[call-overload]
