"""DVC stages, each run in a workspace at its own commit, over one shared cache."""
