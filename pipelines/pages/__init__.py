"""What every HTML page shares: templates, and charts drawn as SVG or PNG."""
