"""Rebuild a registered version in a workspace, and compare it with its record."""
