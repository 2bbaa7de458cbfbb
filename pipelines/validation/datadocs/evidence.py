"""What a validation's evidence, Great Expectations' result JSON, says, as a page shows it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.system.files import read_json
from pipelines.validation.datadocs.words import sentence, short, shown

Verdict = Literal["passed", "warned", "quarantined", "blocked"]
MAX_EXAMPLES, MAX_VALUE, MAX_TEXT = 3, 80, 300


@dataclass(frozen=True)
class Check:
    """One expectation, and how it fared."""

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
    """One validation of one partition."""

    dataset: str
    partition: str
    suite: str
    at: dt.datetime
    verdict: Verdict
    rows: int | None
    bad: int
    """Rows that failed warnings mark."""
    allowed: float | None
    """Largest share of them with which the partition is published; None where the evidence does not say."""
    checks: Sequence[Check]

    @property
    def quarantined(self) -> int:
        """Rows that were set aside."""
        return self.bad if self.verdict == "quarantined" else 0

    @property
    def failing(self) -> list[Check]:
        """The expectations that failed, the gravest first."""
        order = ("critical", "warning", "info")
        return sorted((one for one in self.checks if not one.success), key=lambda one: order.index(one.severity))

    def summary(self) -> dict[str, Any]:
        """What an index needs to know of it, as JSON values."""
        return {
            "partition": self.partition,
            "at": self.at.isoformat(timespec="seconds"),
            "verdict": self.verdict,
            "rows": self.rows,
            "quarantined": self.quarantined,
            "evaluated": len(self.checks),
            "failing": [{"severity": one.severity, "words": short(one.words, MAX_VALUE)} for one in self.failing[:10]],
        }


def read(path: Path) -> Run:
    """The run whose evidence is `path`: DATASET/PARTITION.json.

    Raises:
        DataError: it is not there, or not the JSON of a result.
    """
    found = _mapping(read_json(path, "the evidence of a validation"))
    meta, results = _mapping(found.get("meta")), found.get("results") or []
    checks = [_check(_mapping(one)) for one in results]
    bad, allowed = _number(meta.get("bad_rows")) or 0, meta.get("allowed")
    return Run(
        dataset=path.parent.name,
        partition=path.stem,
        suite=short(found.get("suite_name") or path.parent.name, MAX_VALUE),
        at=_moment(meta) or dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC),
        verdict=_verdict(meta, checks, bad),
        rows=_rows(meta, results),
        bad=bad,
        allowed=float(allowed) if isinstance(allowed, int | float) else None,
        checks=checks,
    )


def _verdict(meta: Mapping[str, Any], checks: Sequence[Check], bad: int) -> Verdict:
    failed = {one.severity for one in checks if not one.success}
    if "critical" in failed or meta.get("verdict") == "blocked":
        return "blocked"
    if bad:
        return "quarantined"
    return "warned" if "warning" in failed else "passed"


def _rows(meta: Mapping[str, Any], results: Sequence[Any]) -> int | None:
    """Rows of the partition: said, else counted by one of its expectations."""
    counts = [_number(_mapping(_mapping(one).get("result")).get("element_count")) for one in results]
    for one in results:
        if "table_row_count" in str(_mapping(_mapping(one).get("expectation_config")).get("type")):
            counts.append(_number(_mapping(_mapping(one).get("result")).get("observed_value")))
    said = _number(meta.get("rows"))
    return said if said is not None else max((one for one in counts if one is not None), default=None)


def _moment(meta: Mapping[str, Any]) -> dt.datetime | None:
    said = meta.get("validated_at") or _mapping(meta.get("batch_markers")).get("ge_load_time")
    try:
        moment = dt.datetime.fromisoformat(str(said))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _check(one: Mapping[str, Any]) -> Check:
    config, result = _mapping(one.get("expectation_config")), _mapping(one.get("result"))
    kwargs, notes = _mapping(config.get("kwargs")), _mapping(config.get("meta"))
    kind, severity = str(config.get("type") or "expectation"), config.get("severity")
    columns = kwargs.get("column") or kwargs.get("column_list") or [kwargs.get("column_A"), kwargs.get("column_B")]
    return Check(
        kind=short(kind, MAX_VALUE),
        words=sentence(kind, kwargs),
        column=short([one for one in columns if one] if isinstance(columns, list) else columns, MAX_VALUE),
        severity=severity if severity in ("critical", "warning", "info") else "critical",
        success=one.get("success") is True,
        observed=_observed(result),
        counts=_counts(result, one.get("success") is True),
        examples=_examples(result),
        why=short(notes.get("why") or "", MAX_TEXT),
        error=_error(_mapping(one.get("exception_info"))),
    )


def _observed(result: Mapping[str, Any]) -> str:
    told = [short(result["observed_value"], MAX_TEXT)] if result.get("observed_value") is not None else []
    details = _mapping(result.get("details"))
    return short("; ".join([*told, *([shown(details)] if details else [])]), MAX_TEXT)


def _counts(result: Mapping[str, Any], success: bool) -> str:
    """The rows for which it holds, or fails."""
    unexpected, rows = _number(result.get("unexpected_count")), _number(result.get("element_count"))
    if unexpected is None or not rows:
        return ""
    counted, missing = rows - unexpected if success else unexpected, _number(result.get("missing_count"))
    share = "all" if counted == rows else f"{counted:,} ({100 * counted / rows:.3g} %)"
    return f"{share} of {rows:,} rows" + (f"; {missing:,} have no value" if missing else "")


def _examples(result: Mapping[str, Any]) -> list[str]:
    """Values that were not expected; that a value was missing is no example."""
    values = result.get("partial_unexpected_list")
    wrong = [one for one in values if one is not None] if isinstance(values, list) else []
    return [short(one, MAX_VALUE) for one in wrong[:MAX_EXAMPLES]]


def _error(info: Mapping[str, Any]) -> str:
    """Great Expectations gives one exception, or a mapping of metric to exception."""
    each = [info] if "raised_exception" in info else [_mapping(one) for one in info.values()]
    return short("; ".join(str(one["exception_message"]) for one in each if one.get("exception_message")), MAX_TEXT)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> int | None:
    counts = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return int(value) if counts else None  # type: ignore[call-overload]
