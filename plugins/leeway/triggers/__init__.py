"""Triggers that wait, in the triggerer, for jobs that Leeway's operators started."""
