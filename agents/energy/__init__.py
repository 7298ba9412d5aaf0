"""Energy, one definition: joules a query or a step, above those of the same time at rest."""
