"""Compute which commitment of a savings plan would have been best for the costs in the ledger, and its risk."""
