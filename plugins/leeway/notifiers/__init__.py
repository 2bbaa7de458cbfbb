"""Telling people what happened: by mail and in Slack."""
