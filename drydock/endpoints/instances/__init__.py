"""The instances of an endpoint: their processes, the program that these run, and the connections to them."""
