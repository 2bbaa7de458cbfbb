"""ReportLink."""

from __future__ import annotations

import attrs

from leeway.links.page import PageLink


@attrs.define()
class ReportLink(PageLink):
    """The button "Report" on the task that judges a candidate: its verdict, curves and slices, whatever it came to."""

    name = "Report"
    xcom_key = "report"
    page = "report_page"
    of = ("model_name", "version")
