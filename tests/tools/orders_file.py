"""Real flights as rows of another business: under other names, with the columns that a user's file may have."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from pipelines.datasets.flights.source import find_package_data

WORDS = ("late", "early", "box", "paper", "torn", "wet", "cold", "door", "key", "ring", "twice", "asked", "home")


@cache
def _read_flights() -> pd.DataFrame:
    flights = pd.read_csv(find_package_data() / "flights.csv.zip")
    flights = flights.sort_values(["month", "day", "sched_dep_time", "carrier", "flight"], ignore_index=True)
    flights["at"] = pd.to_datetime(flights[["year", "month", "day", "hour", "minute"]])
    return flights


def make_orders(days: int = 45, rows_per_day: int = 60) -> pd.DataFrame:
    """Return orders of the first days of 2013: `returned` (yes, no, missing) is to be predicted.

    `wait_min` is known at the prediction, `overdue_min` predicts the label and is known later.
    """
    flights = _read_flights()
    flights = flights[flights["at"] < pd.Timestamp(2013, 1, 1) + pd.Timedelta(days=days)]
    flights = flights.groupby(flights["at"].dt.date, group_keys=False).apply(
        lambda rows: rows.iloc[np.linspace(0, len(rows) - 1, rows_per_day).astype(int)]
    )
    returned = flights["arr_delay"].gt(15).map({True: "yes", False: "no"}).where(flights["arr_delay"].notna())
    return pd.DataFrame(
        {
            "order_no": range(1, len(flights) + 1),
            "sold_at": flights["at"].dt.strftime("%Y-%m-%d %H:%M"),
            "store": flights["carrier"],
            "depot": flights["origin"],
            "km": flights["distance"],
            "wait_min": flights["dep_delay"],
            "overdue_min": flights["arr_delay"],
            "returned": returned,
        }
    ).reset_index(drop=True)


def write_dates_in_two_formats(orders: pd.DataFrame) -> pd.DataFrame:
    """Return the orders with every third time as 31.01.2013, and the others as 2013-01-31."""
    times = pd.to_datetime(orders["sold_at"])
    is_third = orders.index % 3 == 0
    texts = times.dt.strftime("%Y-%m-%d").mask(is_third, times.dt.strftime("%d.%m.%Y"))
    return orders.assign(sold_at=texts)


def add_columns(orders: pd.DataFrame) -> pd.DataFrame:
    """Return the orders with 60 columns: ids, constants, empty columns, free text, flags, measures, more dates."""
    rng = np.random.default_rng(3)
    rows = len(orders)
    columns: dict[str, Any] = {
        f"uid_{n}": [f"{n}-{value:08x}" for value in rng.permutation(rows) + 17] for n in range(6)
    }
    columns |= {f"const_{n}": ["eu-1"] * rows for n in range(6)}
    columns |= {f"empty_{n}": [""] * rows for n in range(4)}
    columns |= {f"note_{n}": [" ".join(rng.choice(WORDS, 12)) for _ in range(rows)] for n in range(6)}
    columns |= {f"flag_{n}": rng.choice(["true", "false"], rows) for n in range(6)}
    columns |= {
        f"measure_{n}": np.where(rng.random(rows) < 0.1, "NA", rng.normal(size=rows).round(3)) for n in range(12)
    }
    columns |= {f"code_{n}": rng.choice(list("ABCDE"), rows) for n in range(10)}
    columns |= {f"day_{n}": pd.to_datetime(orders["sold_at"]).dt.strftime("%d/%m/%Y") for n in range(2)}
    wide = pd.concat([orders, pd.DataFrame(columns)], axis=1)
    assert len(wide.columns) == 60
    return wide
