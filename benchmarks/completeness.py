"""Count the days that validation refuses because they end early: real days of 2013, and days that were truncated.

Each real day of flights and of weather is compared with the days before it, and then published to a temporary lake. Of
every fourth day, the first 25, 50, 75 and 90 % of the rows are also judged. Flights are in the order of departure
(cancelled flights last), weather is in the order of its file, by station. The benchmark also measures the seconds that
one judgement takes, with its queries. LEEWAY_BENCH_DAYS sets the number of days; the default is the year's 365.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.dataset import Dataset

FIRST_DAY, DAYS = dt.date(2013, 1, 1), int(os.environ.get("LEEWAY_BENCH_DAYS", "365"))
TRUNCATION_INTERVAL_DAYS = 4
"""One day in each interval of this length, in days, is also judged with fewer rows."""
SHARES = (0.25, 0.5, 0.75, 0.9)
"""Shares of a day's rows that a truncated day has."""


def run() -> dict[str, Any]:
    """Return how many days of each dataset were refused, as facts, and the seconds of each judgement."""
    from pipelines.dataset import load_dataset
    from pipelines.settings import settings

    facts: dict[str, str] = {}
    seconds: dict[str, list[float]] = {}
    for name in ("flights", "weather"):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["LEEWAY_HOME"] = folder
            settings.cache_clear()
            _judge_year(load_dataset(name), facts, seconds.setdefault(f"{name}: a judgement", []))
    return {"facts": facts, "seconds": seconds}


def _judge_year(dataset: Dataset, facts: dict[str, str], seconds: list[float]) -> None:
    """Judge each day, and add the counts of refused days to `facts`, and the seconds of each judgement to `seconds`."""
    from pipelines.lake import Lake
    from pipelines.window import Days

    lake, source = Lake.open(), dataset.open_source()
    judged_counts, refused_counts = Counter[str](), Counter[str]()
    days = source.list_partitions(Days(FIRST_DAY, FIRST_DAY + dt.timedelta(DAYS - 1)))
    for number, day in enumerate(days):
        rows = source.read(day).read_all()
        rows = rows.sort_by("dep_time") if "dep_time" in rows.schema.names else rows
        truncated_shares = SHARES if number % TRUNCATION_INTERVAL_DAYS == 1 else ()
        for share in (1.0, *truncated_shares):
            start_s = time.perf_counter()
            is_refused = _ends_early(lake, dataset, day, rows.slice(0, int(rows.num_rows * share)))
            seconds.append(time.perf_counter() - start_s)
            name = "real days" if share == 1 else f"days cut at {share:.0%} of their rows"
            judged_counts[name] += 1
            refused_counts[name] += is_refused
        lake.write_partition(dataset.table, day, rows, dataset.key)
    facts |= {
        f"{dataset.name}: {name} refused": f"{refused_counts[name]} of {count}" for name, count in judged_counts.items()
    }


def _ends_early(lake: Any, dataset: Dataset, day: dt.date, rows: pa.Table) -> bool:
    from pipelines.lake import connect
    from pipelines.system.temporary_folders import make_temporary_folder
    from pipelines.validation.evaluators import arguments, completeness_checks
    from pipelines.validation.evaluators.rows import VIEW, Rows

    args = arguments.EarlyEndArguments(column=dataset.event_time, timezone=dataset.timezone, series=[*dataset.series])
    with connect() as connection, make_temporary_folder() as folder:
        connection.register(VIEW, rows)
        partition = Rows(connection, rows.schema, lake, day, dataset.table, folder, count=rows.num_rows)
        is_complete, _ = completeness_checks.make_early_end_check(args, partition).evaluate(partition, [])
    return not is_complete
