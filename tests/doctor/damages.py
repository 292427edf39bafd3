"""Damages by name, each done to a small root (`harming`), and what is to be said of it.

`tracker` cites Kafka's issue tracker where the damage, or Kafka's code that meets it, is known from there:

    KAFKA-3919    offsets that go back after an unclean shutdown kept a broker from starting
    KAFKA-6264    a split of a segment that was cut short leaves .cleaned and .swap files
    KAFKA-7283    indexes below the recovery point are not checked at start
    KAFKA-10207   a time index with zeros at its end, which was never trimmed: retention deleted the segment
    KAFKA-10471   a crash while logs are loaded counts as an unclean shutdown
    KAFKA-14402   hanging transactions
"""

from __future__ import annotations

from tests.doctor.damage import Damage
from tests.doctor.partition_damages import PARTITION_DAMAGES
from tests.doctor.root_damages import ROOT_DAMAGES

__all__ = ["DAMAGES"]

DAMAGES: list[Damage] = [*PARTITION_DAMAGES, *ROOT_DAMAGES]
