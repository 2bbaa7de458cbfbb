"""Rows of the ledger of jobs, and of endpoints, as tests need them."""

import datetime as dt
from typing import Any

from pipelines.costs.endpoints.ledger import SCHEMA as ENDPOINT_SCHEMA
from pipelines.costs.ledger import SCHEMA

BEGIN = dt.datetime(2026, 11, 2, 8, tzinfo=dt.UTC)
"""A Monday."""
HOUR = dt.timedelta(hours=1)


def make_row(name: str = "j", created: dt.datetime = BEGIN, hours: float = 1.0, **fields: Any) -> dict[str, Any]:
    """Return the row of a training job on spot that waited a minute, and saved half of its cost of 1 USD an hour."""
    seconds = round(3_600 * hours)
    row = dict.fromkeys(SCHEMA.names) | {
        **{"date": created.date().replace(day=1), "name": name, "region": "us-east-1", "project": "p", "model": "m"},
        **{"arn": f"arn:aws:sagemaker:us-east-1:1:training-job/{name}", "dag_id": "", "run_id": "", "task_id": "train"},
        **{"map_index": -1, "instance_type": "ml.m5.large", "instance_count": 1, "spot": True, "status": "Completed"},
        **{"secondary_status": "Completed", "failure_reason": "", "created": created, "started": created},
        **{"ended": created + dt.timedelta(seconds=seconds), "training_s": seconds, "billable_s": seconds // 2},
        **{"price_usd_h": 1.0, "price_date": dt.date(2026, 1, 1), "price_source": "test", "saving": 0.5},
        **{"cost_usd": hours / 2, "on_demand_usd": hours, "interruptions": 0, "lost_s": 0.0, "capacity_s": 60.0},
        **{"first_capacity_s": 60.0, "resumes": 0, "cold_starts": 0, "priority": "", "user": ""},
    }
    unknown_names = fields.keys() - row.keys()
    assert not unknown_names, unknown_names
    return row | fields


def make_endpoint_row(begin: dt.datetime = BEGIN, hours: float = 1.0, **fields: Any) -> dict[str, Any]:
    """Return the row of an hour of an endpoint with one instance of 1 USD an hour."""
    row = dict.fromkeys(ENDPOINT_SCHEMA.names) | {
        **{"date": begin.date().replace(day=1), "region": "us-east-1", "endpoint": "e", "config": "c", "variant": "v"},
        **{"project": "p", "model": "m", "instance_type": "ml.m5.large", "memory_mb": 0, "begin": begin},
        **{"end": begin + dt.timedelta(hours=hours), "instances": 1, "running": True, "instance_h": hours},
        **{"requests": 1, "busy_s": 0.0, "price_usd_h": 1.0, "price_date": dt.date(2026, 1, 1)},
        **{"price_source": "test", "cost_usd": hours, "zero_h": 0.0, "saved_usd": 0.0},
    }
    return row | fields
