"""Backup and restore of LEEWAY_HOME, the folder that holds all state of the stack."""
