"""Write the data docs: HTML pages with the results of each validation. They need no network.

LEEWAY_HOME/docs/index.html links to one page for each dataset, with a calendar and a table of its partitions. That page
links to one page for each partition, with every expectation in words and its result. The pages are made from the
evidence that the step `validate` writes. Pages of earlier runs are kept. Great Expectations is not imported
(see docs/explanation/adr/0009-our-own-data-docs.md).
"""

from pipelines.validation.datadocs.site import add_run, build_site, update_indexes

__all__ = ["add_run", "build_site", "update_indexes"]
