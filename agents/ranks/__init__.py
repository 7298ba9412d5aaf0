"""Data-parallel training by several processes of a worker, its ranks."""
