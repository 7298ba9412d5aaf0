"""Replays of a log's primitives on this host, without a farm."""
