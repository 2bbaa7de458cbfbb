"""Parts that all HTML pages share: the Jinja environment, the layout with its style sheet, and the charts' settings."""
