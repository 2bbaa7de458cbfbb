"""DataDocsLink."""

from __future__ import annotations

import attrs

from leeway.links.page import PageLink


@attrs.define()
class DataDocsLink(PageLink):
    """The button "Data docs" on a task that validates a partition: the results, on a failed task too.

    Airflow's worker calls `get_link` when the task has ended, in any state, and stores the address as an XCom. The page
    is written before a failure is raised. There is none if the partition was not validated.
    """

    name = "Data docs"
    xcom_key = "data_docs"
    url_method = "build_docs_url"
    url_arguments = ("dataset", "partition")
