"""DataDocsLink."""

from __future__ import annotations

import attrs

from leeway.links.page import PageLink


@attrs.define()
class DataDocsLink(PageLink):
    """The button "Data docs" on a task that judges a partition: what the validation found, on a failed task too.

    Airflow's worker asks for the address when the task has ended, however it ended, and keeps it as an XCom. The page
    was written before a failure was raised; there is none where the partition never came to be judged.
    """

    name = "Data docs"
    xcom_key = "data_docs"
    page = "docs_page"
    of = ("dataset", "partition")
