"""Transfers between a host's folders and S3 or CloudWatch Logs."""
