"""Data docs: HTML pages of what each validation found. They open in any browser, without a network.

LEEWAY_HOME/docs/index.html links to one page per dataset (a calendar and a table of its partitions), and those link to
one page per partition (every expectation in words, and its result). The pages are made of the evidence that the step
`validate` writes; pages of earlier runs are kept. Great Expectations is not imported
(see docs/explanation/adr/0009-our-own-data-docs.md).
"""

from pipelines.validation.datadocs.site import add_run, build_site

__all__ = ["add_run", "build_site"]
