"""Serve a registered version over HTTP: raw rows of the dataset get the scores that the step `score` gives them."""
