"""Apache Kafka 4.3 as the judge of what we read and write; tests get it as the `oracle` fixture."""

from tests.oracle.broker import Broker
from tests.oracle.jars import KafkaThrewError, OracleError, OracleUnavailableError
from tests.oracle.oracle import GOLDEN_CONFIG, Oracle

__all__ = ["GOLDEN_CONFIG", "Broker", "KafkaThrewError", "Oracle", "OracleError", "OracleUnavailableError"]
