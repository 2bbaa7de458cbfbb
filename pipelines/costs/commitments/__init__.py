"""Compute which commitment of a savings plan would have been best, its risk, and what stated commitments cover."""
