"""Notify people by mail and in Slack."""
