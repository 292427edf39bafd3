"""Idempotent producers and transactions: their rules, their state, and its files."""
