"""DriftLink."""

from __future__ import annotations

import attrs

from leeway.links.page import PageLink


@attrs.define()
class DriftLink(PageLink):
    """The button "Drift" on a task that detects drift: the findings up to its day, whatever was decided."""

    name = "Drift"
    xcom_key = "drift"
    url_method = "build_drift_url"
    url_arguments = ("model_name", "partition")
