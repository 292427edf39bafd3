"""Files: the only package that touches os, mmap and fsync.

    files        the seam: FileSystem, File, Mapping
    local        this machine's file system
    directory    a partition's directory, renamed while it is open
    removal      remove a directory with all in it, and nothing else
    lock, forks  whose a root is: one process at a time, and not a forked child's
    processes    whose something is, and whether that process is gone
    atomic       make or replace a small file whole or not at all
    names        file and directory names
    checkpoints  offset checkpoints, leader epochs
    metadata     partition.metadata, meta.properties, the clean-shutdown file
    remote       read-only directories through fsspec

What callers use every day is re-exported here.
"""

from tidelog.storage.atomic import atomic_create, atomic_write
from tidelog.storage.checkpoints import (
    EpochEntry,
    read_epoch_checkpoint,
    read_offset_checkpoint,
    write_epoch_checkpoint,
    write_offset_checkpoint,
)
from tidelog.storage.directory import Directory
from tidelog.storage.files import (
    CANNOT_LINK,
    DirEntry,
    File,
    FileStat,
    FileState,
    FileSystem,
    Mapping,
    make_directories,
    map_file,
    read_file,
    rename_noreplace,
)
from tidelog.storage.local import LOCAL, LocalFileSystem, release_pages
from tidelog.storage.reading import FileReader

__all__ = [
    "CANNOT_LINK",
    "LOCAL",
    "DirEntry",
    "Directory",
    "EpochEntry",
    "File",
    "FileReader",
    "FileStat",
    "FileState",
    "FileSystem",
    "LocalFileSystem",
    "Mapping",
    "atomic_create",
    "atomic_write",
    "make_directories",
    "map_file",
    "read_epoch_checkpoint",
    "read_file",
    "read_offset_checkpoint",
    "release_pages",
    "rename_noreplace",
    "write_epoch_checkpoint",
    "write_offset_checkpoint",
]
