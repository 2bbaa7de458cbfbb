"""Simulated failures: spot interruptions, missing capacity, outages, and the commands that request them."""
