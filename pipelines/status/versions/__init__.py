"""Describe the versions of a model: what each was made from, and what it was used for."""
