"""Android phones."""
