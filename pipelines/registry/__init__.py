"""The MLflow registry: versions, their lineage, and the events that decide which one is champion."""
