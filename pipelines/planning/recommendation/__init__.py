"""Recommend instances for a training, with its time and its cost on each, and say why others were left out."""
