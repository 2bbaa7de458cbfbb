"""What every HTML page shares: one Jinja environment, a base layout with its style sheet, and the charts' settings."""
