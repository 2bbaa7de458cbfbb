"""What a training script with torch uses inside a job: processes, checkpoints, and data."""
