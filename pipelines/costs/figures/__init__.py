"""Compute the key figures of the platform from the ledger, and compare them with the targets of params.yaml."""
