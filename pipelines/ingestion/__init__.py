"""Read sources: partitions by day, and changes by cursor."""
