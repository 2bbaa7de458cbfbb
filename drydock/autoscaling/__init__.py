"""Application Auto Scaling for the variants of endpoints: the API is moto's, the decisions are made here."""
