"""What runs inside a job's container: checkpoints, tracking, signals and the entry points of its jobs."""
