"""Describe jobs for Leeway's page: what they use, and which ones run."""
