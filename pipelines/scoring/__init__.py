"""Scoring of published days by the champion, and the labels that arrive later."""
