"""An evaluation for people: one HTML page that needs no network, and its pictures as PNG."""
