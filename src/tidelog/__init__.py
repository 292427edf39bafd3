"""Apache Kafka's storage layer as a Python library."""

from __future__ import annotations

__version__ = "0.1.0"
