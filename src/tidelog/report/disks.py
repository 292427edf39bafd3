"""The roots of a report, and what doctor says of them and of their partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidelog.doctor import Finding, PartitionVerdict, RootVerdict, examine
from tidelog.errors import InvalidIndexError
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.report.tables import Table, columns_of
from tidelog.scanning.partitions import Partition
from tidelog.scanning.volumes import open_volume
from tidelog.storage import LOCAL
from tidelog.storage.metadata import parse_properties
from tidelog.storage.names import CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE

__all__ = ["Verdicts", "examine_disks", "root_table"]

MAX_FINDINGS = 2000
"""Findings that are told one by one."""
_FINDING = ("file", "position", "offset", "end_offset", "cause", "kafka", "advice")


class Verdicts:
    """What doctor says: of roots and partitions by path, and its findings."""

    def __init__(self) -> None:
        self.roots: dict[str, RootVerdict] = {}
        self.partitions: dict[str, PartitionVerdict] = {}

    def findings(self, numbers: Mapping[str, int]) -> Table:
        """The findings, the worst first; `numbers` has the partitions by path."""
        of_roots = [(None, one) for verdict in self.roots.values() for one in verdict.findings]
        of_partitions = [
            (numbers.get(path), one) for path, verdict in self.partitions.items() for one in verdict.findings
        ]
        found = sorted([*of_roots, *of_partitions], key=lambda pair: _rank(pair[1]))
        return columns_of(
            ("at", "severity", "kind", *_FINDING),
            (
                [at, one.severity.value, one.kind.value, *(getattr(one, name) for name in _FINDING)]
                for at, one in found[:MAX_FINDINGS]
            ),
        )


def _rank(finding: Finding) -> int:
    return list(type(finding.severity)).index(finding.severity)


def examine_disks(
    roots: Sequence[str],
    alone: Sequence[str],
    config: BrokerConfig,
    now_ms: int,
    advance: Callable[[int], None],
) -> Verdicts:
    """What doctor says of whole roots, those of one node together, and of partitions that are named alone."""
    found = Verdicts()
    local = [root for root in roots if "://" not in root]
    for disks in _by_node(local):
        for verdict in examine(LOCAL, disks, config=config, now_ms=now_ms, advance=advance):
            if isinstance(verdict, RootVerdict):
                found.roots[verdict.path] = verdict
            else:
                found.partitions[verdict.path] = verdict
    for path in alone:
        root = path.rpartition("/")[0]
        if "://" in path or root in roots:
            continue
        for verdict in examine(LOCAL, [root], config=config, now_ms=now_ms, only=path, advance=advance):
            if isinstance(verdict, PartitionVerdict):
                found.partitions[verdict.path] = verdict
    return found


def _by_node(roots: Sequence[str]) -> list[list[str]]:
    """The disks of one broker together; those of nobody each on its own."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for root in roots:
        meta = _properties(root)
        node = meta.get("node.id", meta.get("broker.id"))
        key = (root,) if node is None else (meta.get("cluster.id", ""), node)
        groups.setdefault(key, []).append(root)
    return list(groups.values())


def root_table(roots: Sequence[str], partitions: Sequence[Partition], verdicts: Verdicts | None) -> Table:
    """The roots, with whose they are and how they were left."""
    names = ("root", "node_id", "cluster_id", "clean_shutdown", "is_whole", "starts", "verdict")
    above = [one.url.rpartition("/")[0] for one in partitions]
    return columns_of(
        names, (_root(root, root in roots, verdicts) for root in dict.fromkeys([*roots, *above]))
    )


def _root(root: str, is_whole: bool, verdicts: Verdicts | None) -> list[Any]:
    meta = _properties(root)
    verdict = None if verdicts is None else verdicts.roots.get(root)
    return [
        root,
        meta.get("node.id", meta.get("broker.id")),
        meta.get("cluster.id"),
        any(name == CLEAN_SHUTDOWN_FILE for name, _ in open_volume(root).names()),
        is_whole,
        None if verdict is None else verdict.starts,
        None if verdict is None else verdict.verdict,
    ]


def _properties(root: str) -> Mapping[str, str]:
    try:
        return parse_properties(
            open_volume(root).content(META_PROPERTIES_FILE), f"{root}/{META_PROPERTIES_FILE}"
        )
    except (OSError, InvalidIndexError):
        return {}
