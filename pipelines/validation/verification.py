"""Judge a share of the partitions by both engines, DuckDB and Great Expectations, and compare the answers.

The partitions are drawn by a hash of the names of dataset and partition, so a repeated run draws the same partitions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.errors import EnginesDifferError
from pipelines.partitions import Partition
from pipelines.settings import settings
from pipelines.system.log import log
from pipelines.validation import suites
from pipelines.validation.evaluators.duckdb_expectations import ADDED_EXPECTATIONS
from pipelines.validation.suites import EngineName, ExpectationResult, Judgement, Rows
from pipelines.validation.suites.comparing import Difference, compare_results

MAX_ROWS = 5_000_000
"""Largest partition to verify, rows: the pandas engine of Great Expectations holds all values in memory."""
MAX_NAMED_DIFFERENCES = 3
"""Largest number of differences that an error names. The evidence names all of them."""


@dataclass(frozen=True)
class Verification:
    """The comparison of both judgements of one partition."""

    differences: Sequence[Difference]
    compared_count: int
    """Number of expectations that both engines judged."""
    gx_version: str

    def to_json_values(self) -> dict[str, Any]:
        """Return the comparison as JSON values, with both answers if they differ."""
        return {
            "great_expectations": self.gx_version,
            "compared": self.compared_count,
            "differences": [difference.to_json_values() for difference in self.differences],
        }


def verify(judgement: Judgement, rows: Rows, dataset: str, share: float) -> Verification | None:
    """Judge the rows by the other engine, too, if the partition is drawn, and compare the answers of both.

    Args:
        judgement: judgement of the rows by the first engine.
        rows: rows that were judged.
        dataset: dataset of the partition.
        share: share of the partitions that are drawn, 0 to 1.

    Returns:
        The comparison; None if the partition is not drawn or is too large, or if only one engine knows its
        expectations.
    """
    if not is_drawn(dataset, rows.partition, share):
        return None
    if rows.count > MAX_ROWS:
        log.warning(
            "%s %s: not verified, because Great Expectations would hold %d rows in memory; the limit is %d",
            dataset, rows.partition, rows.count, MAX_ROWS,
        )  # fmt: skip
        return None
    pairs = _judge_by_both_engines(judgement, rows)
    if not pairs:
        return None
    from pipelines.validation.suites import gx_engine

    verification = Verification(compare_results(pairs, rows), len(pairs), gx_engine.VERSION)
    log.info(
        "%s %s: DuckDB and Great Expectations %s judged %d expectations, %d differently",
        dataset, rows.partition, gx_engine.VERSION, len(pairs), len(verification.differences),
    )  # fmt: skip
    return verification


def _judge_by_both_engines(judgement: Judgement, rows: Rows) -> list[tuple[ExpectationResult, ExpectationResult]]:
    """Return the answers of DuckDB and of Great Expectations to each expectation that both can evaluate."""
    results = [result for result in judgement.results if _can_compare(result, judgement.engine)]
    if not results:
        return []
    suite = replace(judgement.suite, expectations=[result.expectation for result in results])
    other_results = suites.judge(suite, rows, engine="duckdb" if judgement.engine == "gx" else "gx").results
    return [
        (result, other_result) if result.engine == "duckdb" else (other_result, result)
        for result, other_result in zip(results, other_results, strict=True)
        if result.engine != other_result.engine
    ]


def _can_compare(result: ExpectationResult, engine: EngineName) -> bool:
    """Return whether the expectation of a result can be judged by the other engine, too."""
    return result.engine == engine and result.expectation.type not in ADDED_EXPECTATIONS


def is_drawn(dataset: str, partition: Partition, share: float) -> bool:
    """Return whether both engines judge this partition. The answer for a partition is always the same."""
    digest = hashlib.sha256(f"{dataset}/{partition}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def build_engines_differ_error(dataset: str, partition: Partition, verification: Verification) -> EnginesDifferError:
    """Return the error for a partition that the engines judge differently, with both answers."""
    differences = verification.differences
    answers = "; ".join(difference.describe() for difference in differences[:MAX_NAMED_DIFFERENCES])
    page = settings().build_docs_url(dataset, str(partition))
    return EnginesDifferError(
        f"{dataset} {partition} was not published: DuckDB and Great Expectations {verification.gx_version} differ "
        f"about {len(differences)} of {verification.compared_count} expectations: {answers}.",
        f"This is a bug of one of them. Until it is fixed, run `validate --engine gx --verify-share 0`. See {page}",
    )
