"""Judge a version from the copies of an endpoint's requests that it answered as a shadow variant."""
