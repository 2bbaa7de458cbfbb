"""The link to the page of a decision about drift."""

from __future__ import annotations

import attrs

from leeway.links.page import PageLink


@attrs.define()
class DriftLink(PageLink):
    """The button "Drift" on a task that detects drift: it opens the findings up to the task's day."""

    name = "Drift"
    xcom_key = "drift"
    url_method = "build_drift_url"
    url_arguments = ("model", "partition")
