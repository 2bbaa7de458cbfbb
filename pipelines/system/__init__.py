"""Access to files, locks, logs, S3 and databases, and the translation of errors of libraries."""
