"""Read-only directories wherever fsspec reaches (S3, HDFS, HTTP, zip...), for scans of archived logs.

Remote files are not mapped and have no cheap small reads: callers ask for large ranges. Nothing here writes.
"""

from __future__ import annotations

from typing import Any

from tidelog.errors import InvalidInputError
from tidelog.storage.files import DirEntry

__all__ = ["RemoteDirectory", "file_system", "glob_directories", "open_ro"]


class RemoteDirectory:
    """A directory behind a URL. Paths are relative to it and use `/`."""

    def __init__(self, fs: Any, root: str, url: str) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        self.url = url
        """The URL it was opened with."""

    def __repr__(self) -> str:
        """With its URL."""
        return f"RemoteDirectory({self.url!r})"

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def list(self, path: str = "") -> list[DirEntry]:
        """The entries of the directory `path`, by name."""
        where = self._path(path)
        self._fs.invalidate_cache(where)  # who looks again wants to see what has come since
        found = self._fs.ls(where, detail=True)
        entries = []
        for info in found:
            name = info["name"].rstrip("/")
            if name.lstrip("/") != where.lstrip("/"):  # object stores list the directory's own marker
                entries.append(DirEntry(name.rpartition("/")[2], info["type"] == "directory"))
        return sorted(entries)

    def tree(self) -> dict[str, dict[str, int]]:
        """The files below, by the path of the directory that holds them: their names and sizes.

        An object store answers this with a page for every thousand files, however many directories there are.
        """
        self._fs.invalidate_cache()
        above = f"{self._root.lstrip('/')}/"
        found: dict[str, dict[str, int]] = {}
        for path, info in self._fs.find(self._root, detail=True).items():
            directory, _, name = path.lstrip("/").removeprefix(above).rpartition("/")
            found.setdefault(directory, {})[name] = int(info["size"] or 0)
        return found

    def size(self, path: str) -> int:
        """The length of a file in bytes."""
        return int(self._fs.info(self._path(path))["size"])

    def read_range(self, path: str, position: int, n: int) -> bytes:
        """The `n` bytes from `position` on; fewer only where the file ends."""
        if position < 0 or n < 0:
            raise InvalidInputError(f"not a range: {n} bytes at {position}")
        if n == 0:
            return b""
        data: bytes = self._fs.cat_file(self._path(path), start=position, end=position + n)
        return data


def open_ro(url: str, **options: Any) -> RemoteDirectory:
    """The directory at an fsspec URL (`s3://bucket/logs`, `file:///logs`...); options go to fsspec."""
    fs, root = file_system(url, options)
    return RemoteDirectory(fs, root, url)


def glob_directories(url: str, **options: Any) -> list[str]:
    """The directories that match an fsspec URL with wildcards, as URLs, by name."""
    fs, pattern = file_system(url, options)
    found = fs.glob(pattern, detail=True)
    return sorted(fs.unstrip_protocol(name) for name, info in found.items() if info["type"] == "directory")


def file_system(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path in it. InvalidInputError if there is none."""
    try:
        import fsspec
    except ImportError:
        raise InvalidInputError(
            f"{url!r} needs fsspec: pip install 'tidelog[remote]' (and s3fs, gcsfs... as needed)"
        ) from None
    try:
        fs, root = fsspec.core.url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise InvalidInputError(f"cannot open {url!r}: {error}") from error
    return fs, root
