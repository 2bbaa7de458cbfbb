"""The example datasets."""
