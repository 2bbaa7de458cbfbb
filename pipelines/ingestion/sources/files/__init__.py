"""Files of CSV, JSON lines and Parquet: on this machine, in an object store or on the web."""
