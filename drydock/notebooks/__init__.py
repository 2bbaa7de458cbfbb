"""Notebook instances and Studio apps: their states, tags and metrics. Nothing runs in them: there is no Jupyter."""
