"""Reads by offset and by time, on one picture of a log."""
