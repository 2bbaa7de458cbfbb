"""The link to the report of a verdict."""

from __future__ import annotations

import attrs

from leeway.links.page import PageLink


@attrs.define()
class ReportLink(PageLink):
    """The button "Report" on a task that judges a candidate: it opens the verdict, the curves and the slices."""

    name = "Report"
    xcom_key = "report"
    url_method = "build_report_url"
    url_arguments = ("model", "version")
