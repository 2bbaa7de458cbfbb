"""Run the trials of a search: the study in its journal, the processes, and their runs in MLflow."""
