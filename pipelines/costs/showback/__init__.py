"""Show who pays for what: costs by team, project, model, dataset, environment, person and month, and their budgets."""
