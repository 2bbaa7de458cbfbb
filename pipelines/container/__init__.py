"""Modules that run inside a job's container: checkpoints, tracking, signals, and the entry points of jobs."""
