"""Write the report of an evaluation: one HTML page that needs no network, and its pictures as PNG files."""
