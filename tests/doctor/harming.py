"""Ways to harm a disk: a small root that is made from golden partitions, and what is done to its files."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from google_crc32c import value as crc32c

from tests.golden import GOLDEN


def make_root(target: Path, *partitions: str) -> Path:
    """A root with its metadata and some golden partitions, closed cleanly."""
    target.mkdir(parents=True)
    for path in sorted((GOLDEN / "clean").iterdir()):
        if not path.is_dir():
            shutil.copy2(path, target)
    for name in ("__cluster_metadata-0", *partitions):
        shutil.copytree(GOLDEN / "clean" / name, target / name)
    return target


def second(root: Path) -> Path:
    """The broker's second disk."""
    return root.with_name(root.name + "2")


def index(root: Path, suffix: str = ".index", partition: str = "golden-none-0", number: int = 1) -> Path:
    """An index of one of these logs."""
    return beside(log(root, partition, number), suffix)


def small(root: Path, name: str) -> Path:
    """A small file of golden-none-0."""
    return root / "golden-none-0" / name


def log(root: Path, partition: str = "golden-none-0", number: int = -1) -> Path:
    """One of a partition's logs that have records."""
    logs = sorted((root / partition).glob("*.log"))
    return [path for path in logs if path.stat().st_size][number]


def beside(path: Path, suffix: str) -> Path:
    return path.with_suffix(suffix)


def edit(path: Path, change: Callable[[bytearray], object]) -> None:
    """Change a file's bytes; its time stays, as with a disk that has gone bad."""
    data = bytearray(path.read_bytes())
    change(data)
    stat = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def flip(path: Path, at: int) -> None:
    def change(data: bytearray) -> None:
        data[at] ^= 0x10

    edit(path, change)


def overwrite(path: Path, at: int, new: bytes) -> None:
    def change(data: bytearray) -> None:
        data[at : at + len(new)] = new

    edit(path, change)


def cut(path: Path, by: int) -> None:
    edit(path, lambda data: data.__delitem__(slice(len(data) - by, None)))


def append(path: Path, new: bytes) -> None:
    edit(path, lambda data: data.extend(new))


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def batch_at(path: Path, number: int) -> tuple[int, int]:
    """Where a batch of a log begins and ends."""
    data, position = path.read_bytes(), 0
    for _ in range(number):
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    return position, position + 12 + struct.unpack_from(">i", data, position + 8)[0]


def repeat_batch(root: Path) -> None:
    path = log(root, number=1)
    begin, end = batch_at(path, 1)
    data = path.read_bytes()
    path.write_bytes(data[:end] + data[begin:end] + data[end:])


def write_line(root: Path, name: str, line: str) -> None:
    """Put a partition's line into a checkpoint, in the place of the one it has."""
    path = root / name
    topic, partition, _ = line.split()
    lines = [
        each for each in path.read_text().splitlines()[2:] if not each.startswith(f"{topic} {partition} ")
    ]
    lines.append(line)
    path.write_text("".join(f"{each}\n" for each in ("0", len(lines), *lines)))


def leave(root: Path, suffix: str, number: int = 1) -> None:
    """A second copy of a segment's files with another suffix."""
    source = log(root, number=number)
    for kind in (".log", ".index", ".timeindex"):
        path = beside(source, kind)
        shutil.copy2(path, path.with_name(path.name + suffix))


def swap_segment(root: Path) -> None:
    """A replacement that was complete but for its last renames."""
    source = log(root, number=1)
    for kind in (".log", ".index", ".timeindex"):
        path = beside(source, kind)
        path.rename(path.with_name(path.name + ".swap"))


def split_segment(root: Path) -> None:
    leave(root, ".swap", 2)
    leave(root, ".cleaned", 1)


def rename(root: Path, source: str, target: str) -> None:
    (root / source).rename(root / target)


def twin(root: Path) -> None:
    shutil.copytree(root / "golden-none-0", second(root) / "golden-none-0")


def other_cluster(root: Path) -> None:
    path = second(root) / "meta.properties"
    path.write_text(path.read_text().replace("cluster.id=", "cluster.id=AAAA"))


def same_directory_id(root: Path) -> None:
    shutil.copy2(root / "meta.properties", second(root) / "meta.properties")


def hide(path: Path) -> None:
    path.chmod(0o000)


def future_times(root: Path) -> None:
    """Time index and batches of the last segment, far in the future; a producer's clock was wrong."""
    path = log(root, "golden-multi-0")
    data = bytearray(path.read_bytes())
    position = last = 0
    while position < len(data):
        size = 12 + struct.unpack_from(">i", data, position + 8)[0]
        struct.pack_into(">qq", data, position + 27, 4_000_000_000_000, 4_000_000_000_000)
        struct.pack_into(">I", data, position + 17, crc32c(bytes(data[position + 21 : position + size])))
        last = struct.unpack_from(">q", data, position)[0] + struct.unpack_from(">i", data, position + 23)[0]
        position += size
    path.write_bytes(data)
    beside(path, ".timeindex").write_bytes(struct.pack(">qi", 4_000_000_000_000, last - int(path.stem)))


def other_directory_id(root: Path) -> None:
    """As if the line had been taken out, and a broker had given the disk a new one."""
    path = root / "meta.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("directory.id")]
    path.write_text("\n".join([*lines, "directory.id=AAAAAAAAAAAAAAAAAAAD_w", ""]))
