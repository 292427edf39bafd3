"""Taking hold of a node's roots, before anything in them changes.

All belong to one node of one cluster, each with an id of its own. A root that cannot be opened is offline,
unless it is the first: that one has the metadata, or would have it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.errors import InvalidIndexError, InvalidInputError
from tidelog.layout.roots import Root, hold_root
from tidelog.manager.store.environment import Environment
from tidelog.manager.store.events import RootWentOffline
from tidelog.storage.names import META_PROPERTIES_FILE

__all__ = ["hold_roots"]


def hold_roots(
    paths: Sequence[str], env: Environment, create: bool
) -> tuple[list[Root], dict[str, BaseException]]:
    """The roots that are held now, and why others are offline; all are released if an error is raised."""
    roots: list[Root] = []
    offline: dict[str, BaseException] = {}
    node_id, cluster_id = env.config.node_id, None
    try:
        for path in paths:
            try:
                root = hold_root(path, env.fs, create=create, node_id=node_id, cluster_id=cluster_id)
            except (OSError, InvalidIndexError) as error:
                if not roots:  # the first one has the metadata, or would have it
                    raise
                offline[path] = error
                env.tell(RootWentOffline(path, str(error)))
                continue
            roots.append(root)
            _check_own_id(root, roots[:-1])
            node_id, cluster_id = root.identity.node_id, root.identity.cluster_id
    except BaseException:
        for root in roots:
            root.release()
        raise
    return roots, offline


def _check_own_id(root: Root, others: Sequence[Root]) -> None:
    """Refuse a root with the id of another: by it the metadata says where a partition is."""
    for other in others:
        if other.identity.directory_id == root.identity.directory_id:
            raise InvalidInputError(
                f"{root.file(META_PROPERTIES_FILE)} has the directory.id of {other.path}: one was copied "
                "from the other. Remove the line directory.id from the copy's file, or leave the copy out"
            )
