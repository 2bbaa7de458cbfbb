"""Monitoring of what was scored: profiles, drift, and the table of drift results."""
