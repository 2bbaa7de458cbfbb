"""Provide what all HTML pages share: the Jinja environment, the layout, its style sheet, and settings of charts."""
