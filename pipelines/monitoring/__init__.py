"""Monitoring of scored days: their profiles, drift, the drift report, and the table of drift results."""
