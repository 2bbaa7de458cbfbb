"""Answer EC2's requests for the history of spot prices. moto answers all other requests of EC2."""
