"""Read prices: from dated tables of the package and the project, and from AWS."""
