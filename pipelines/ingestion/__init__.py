"""Reading of sources: partitions by day, and changes by cursor."""
