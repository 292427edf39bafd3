"""Replace a small file whole, or not at all.

1. write `<path>.tmp` (what a crash left there is overwritten);  2. fsync it;  3. rename it over `<path>`;
4. fsync the directory. A crash before 3 leaves the old file, after 3 the old or the new one, never a mixture.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.storage.files import FileSystem, parent

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrPath

__all__ = ["atomic_write"]


def atomic_write(
    fs: FileSystem,
    path: StrPath,
    data: ReadableBuffer,
    *,
    sync_directory: bool = True,
    temporary: str | None = None,
) -> None:
    """Make `path` a file that holds `data`, durably.

    With `sync_directory=False` step 4 is left to the caller, who replaces several files of a directory.
    `temporary` is another name for step 1, for callers who may be several.
    """
    target = os.fspath(path)
    temporary = temporary or f"{target}.tmp"
    file = fs.open(temporary, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    finally:
        file.close()
    fs.rename(temporary, target)
    if sync_directory:
        fs.sync_directory(parent(target))
