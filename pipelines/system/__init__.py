"""The machine below: files, locks, logs, progress, S3, and errors of libraries as our own."""
