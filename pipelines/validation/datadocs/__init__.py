"""Data docs: what each validation found, as pages that open in any browser without a network.

LEEWAY_HOME/docs/index.html leads to a page a dataset (a calendar, and a table of its partitions), and that to a page a
partition (every expectation in words, and how it fared). Pages are made of the evidence that `validate` keeps; what a
partition's page said before is kept beside it. Light: no Great Expectations
(see docs/explanation/adr/0009-our-own-data-docs.md).
"""

from pipelines.validation.datadocs.site import add, build

__all__ = ["add", "build"]
