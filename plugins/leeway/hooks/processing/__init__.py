"""Processing jobs that build features with Spark."""
