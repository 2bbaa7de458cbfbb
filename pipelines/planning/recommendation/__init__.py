"""Recommend instances for a training: what it takes and costs on each, and why others were left out."""
