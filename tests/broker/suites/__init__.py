"""Test suites of other projects, run against `tidelog serve`. Their sources are not here."""
