"""Estimate what a training needs before it is started: memory and time, from published formulas. Needs no library."""
