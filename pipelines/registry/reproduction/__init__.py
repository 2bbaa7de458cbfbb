"""Rebuild a registered version in a workspace, and compare it with what was recorded of it."""
