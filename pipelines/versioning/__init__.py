"""DVC stages: each run has a workspace at its own commit, and all workspaces share one cache."""
