"""Takes the place of kafka-python's `test/service.py`, which its source distribution lacks."""

from __future__ import annotations


class ExternalService:
    """A broker that runs."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port


class SpawnedService:
    """A broker of the suite's own is not started."""
