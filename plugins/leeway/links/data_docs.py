"""The link to the page of a validation."""

from __future__ import annotations

import attrs

from leeway.links.page import PageLink


@attrs.define()
class DataDocsLink(PageLink):
    """The button "Data docs" on a task that validates a partition: it opens the results, also if the task failed.

    Airflow's worker calls `get_link` when the task has ended, in any state, and stores the address as an XCom. The step
    writes the page before it raises a failure. There is no page if the partition was not validated.
    """

    name = "Data docs"
    xcom_key = "data_docs"
    url_method = "build_docs_url"
    url_arguments = ("dataset", "partition")
