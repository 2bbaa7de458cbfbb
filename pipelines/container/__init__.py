"""Run jobs inside their containers: checkpoints, tracking, signals, and the entry points of jobs."""
