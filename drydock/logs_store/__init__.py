"""CloudWatch Logs on disk: groups, streams and events survive a restart."""
