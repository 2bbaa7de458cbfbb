"""Whether a flight is on time, late or cancelled: the days of `flights`, with a label that label.py computes.

The features of the plane are left out. The plane of a cancelled flight is often not recorded: 30 % of the cancelled
flights have no `tailnum`; all other flights have one. So a missing plane would tell the model that a flight was
cancelled.
"""

from dataclasses import replace

from pipelines.datasets.flights import DATASET as FLIGHTS

DATASET = replace(
    FLIGHTS,
    name="flight_status",
    label="status",
    task="multiclass",
    rows_from="flights",
    features={name: kind for name, kind in FLIGHTS.features.items() if not name.startswith("plane_")},
)
