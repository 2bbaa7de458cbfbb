"""Read and write the online store: the newest values of features that one request does not have, by key."""
