"""Validation of a partition against its suite of expectations, and the pages that show it."""
