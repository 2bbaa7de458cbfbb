"""Show the costs by payer: team, project, model, dataset, environment, person and month, and their budgets."""
