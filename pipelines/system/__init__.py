"""Access files, locks, logs, S3 and databases, and translate the errors of libraries."""
