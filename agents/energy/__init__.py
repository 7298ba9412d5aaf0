"""Energy in joules a query or step, above the energy of the same time at rest."""
