"""Show in the task's log what a job does."""
