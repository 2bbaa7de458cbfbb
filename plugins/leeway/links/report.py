"""ReportLink."""

from __future__ import annotations

import attrs

from leeway.links.page import PageLink


@attrs.define()
class ReportLink(PageLink):
    """The button "Report" on a task that judges a candidate: its verdict, curves and slices, passed or not."""

    name = "Report"
    xcom_key = "report"
    url_method = "build_report_url"
    url_arguments = ("model_name", "version")
