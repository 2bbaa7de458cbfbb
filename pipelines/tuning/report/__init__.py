"""Collect the results of a search; write them as files, charts and a page."""
