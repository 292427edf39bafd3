"""Small roots, and roots made of them by hostile hands: from a seed, so that each can be had again.

A case is a directory `root` and, beside it, a `canary`: somebody else's files, to which links, journals and
names lead. Whatever is done with the root, the canary stays as it is.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import tidelog
from tests.log.logs import abort, commit
from tests.manager.stores import SMALL, fill, some
from tidelog.errors import TidelogError
from tidelog.manager.publishing.mark import MARK_FILE
from tidelog.records import encode_records
from tidelog.storage.write_journal import JOURNAL_FILE

__all__ = ["Case", "make_bases", "mutate", "snapshot"]

GIANTS = (3 << 30, 20 << 30, 1 << 42)
IDS = "00112233445566778899aabbccddeeff"
NUMBERS = (0, 1, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**63 - 2, 10**30)


class Case:
    """A mutated root, with what is beside it."""

    def __init__(self, at: Path, dice: random.Random) -> None:
        self.root = at / "root"
        self.canary = at / "canary"
        self.dice = dice
        self.did: list[str] = []

    def files(self) -> list[Path]:
        """The regular files of the root, in order."""
        found = (path for path in self.root.rglob("*") if not path.is_symlink() and path.is_file())
        return sorted(path for path in found if path.stat().st_size < 1 << 24)

    def file(self) -> Path:
        """One of them, of any kind."""
        files = self.files()
        suffixes = sorted({path.name if "." not in path.name else path.suffix for path in files})
        wanted = self.dice.choice(suffixes)
        return self.dice.choice([path for path in files if wanted in (path.name, path.suffix)])

    def directory(self) -> Path:
        """The root, or a directory in it."""
        inner = sorted(path for path in self.root.iterdir() if path.is_dir() and not path.is_symlink())
        return self.dice.choice([self.root, *inner])


def make_bases(at: Path) -> list[Path]:
    """Roots to begin with: a store's, and one that was not closed cleanly."""
    at.mkdir(parents=True, exist_ok=True)
    clean = at / "clean"
    with tidelog.open(clean) as store:
        for topic, config in (("plain", SMALL), ("packed", SMALL | {"compression.type": "zstd"})):
            fill(store.create_topic(topic, 1, config)[0], 30)
        store.partition("plain").delete_records(7)
        partition = store.create_topic("txn", 1, SMALL)[0]
        for number in range(4):
            who = number % 2 + 1
            records = encode_records(
                some(3), producer_id=who, producer_epoch=0, base_sequence=number // 2 * 3, transactional=True
            )
            partition.append(records)
            (commit if number % 2 == 0 else abort)(partition.log, who)
        store.create_topic("empty")
    unclean = at / "unclean"
    shutil.copytree(clean, unclean)
    (unclean / ".kafka_cleanshutdown").unlink()
    log = sorted((unclean / "plain-0").glob("*.log"))[-1]
    log.write_bytes(log.read_bytes()[:-5])
    return [clean, unclean]


def mutate(bases: list[Path], at: Path, seed: int) -> Case:
    """The case of a seed, in a directory of its own."""
    case = Case(at, random.Random(seed))
    shutil.copytree(case.dice.choice(bases), case.root)
    (case.canary / "inner").mkdir(parents=True)
    for name in ("file", "inner/file", "00000000000000000000.log"):
        (case.canary / name).write_bytes(b"precious\n" * 9)
    for _ in range(case.dice.choice((1, 1, 2, 3, 6))):
        act = case.dice.choice(ACTS)
        try:
            act(case)
            case.did.append(act.__name__)
        except (OSError, IndexError, ValueError):  # nothing there (any more) to do it to
            case.did.append(f"no {act.__name__}")
    return case


def snapshot(path: Path) -> dict[str, object]:
    """All that is below a directory."""
    found: dict[str, object] = {}
    for one in sorted(path.rglob("*")):
        stat = one.lstat()
        found[str(one)] = (stat.st_mode, stat.st_mtime_ns, one.read_bytes() if one.is_file() else None)
    return found


# ---- what is done to files


def flip_bits(case: Case) -> None:
    path, dice = case.file(), case.dice
    data = bytearray(path.read_bytes())
    for _ in range(dice.choice((1, 1, 1, 3, 20))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def set_numbers(case: Case) -> None:
    path, dice = case.file(), case.dice
    data = bytearray(path.read_bytes())
    width = dice.choice((1, 2, 4, 8))
    at = dice.randrange(max(len(data) - width, 1))
    data[at : at + width] = dice.choice((b"\0", b"\xff", b"\x7f", b"\x80")) + bytes(width - 1)
    path.write_bytes(data)


def cut(case: Case) -> None:
    path = case.file()
    os.truncate(path, case.dice.randrange(path.stat().st_size + 1))


def extend(case: Case) -> None:
    path, dice = case.file(), case.dice
    with path.open("ab") as file:
        file.write(dice.choice((bytes(dice.randrange(1, 5000)), dice.randbytes(dice.randrange(1, 5000)))))


def grow_vast(case: Case) -> None:
    os.truncate(case.file(), case.dice.choice(GIANTS))


def replace_bytes(case: Case) -> None:
    path, dice = case.file(), case.dice
    path.write_bytes(dice.choice((b"", dice.randbytes(100), b"\xff\0garbage", b"0\n", b"0\n1\n", b"\n" * 50)))


def swap(case: Case) -> None:
    one, two = case.file(), case.file()
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def duplicate(case: Case) -> None:
    path = case.file()
    shutil.copy(path, case.directory() / path.name, follow_symlinks=False)


def rename_segment(case: Case) -> None:
    path, dice = case.file(), case.dice
    base = dice.choice((0, 1, 7, 30, 2**31, 2**63 - 1, dice.randrange(40)))
    suffix = dice.choice((".log", ".index", ".timeindex", ".txnindex", ".snapshot"))
    path.rename(
        path.with_name(f"{base:020d}{suffix}{dice.choice(('', '', '.swap', '.cleaned', '.deleted'))}")
    )


def remove(case: Case) -> None:
    case.file().unlink()


def remove_all_of_a_kind(case: Case) -> None:
    suffix = case.file().suffix
    for path in case.files():
        if path.suffix == suffix:
            path.unlink()


# ---- what is put in their place


def put_link(case: Case) -> None:
    path, dice = case.file(), case.dice
    path.unlink()
    path.symlink_to(dice.choice((case.canary / "file", case.canary, "nowhere", path.name, "/", "/dev/zero")))


def put_fifo(case: Case) -> None:
    path = case.file()
    path.unlink()
    os.mkfifo(path)


def put_directory(case: Case) -> None:
    path = case.file()
    path.unlink()
    path.mkdir()
    (path / "link").symlink_to(case.canary)


def link_directory(case: Case) -> None:
    path, dice = case.directory(), case.dice
    if path == case.root:
        path = case.root / dice.choice(("new-0", f"plain-0.{IDS}-delete", f"plain-0.{IDS}-future"))
    else:
        shutil.rmtree(path)
    path.symlink_to(case.canary)


def plant_directory(case: Case) -> None:
    dice = case.dice
    state = dice.choice((f".{IDS}-delete", f".{IDS}-future", f".{IDS}-stray", "", "-delete"))
    path = (
        case.root
        / f"{dice.choice(('plain', 'gone', 'txn', '..', 'x' * 240))}-{dice.choice((0, 1, 2**31))}{state}"
    )
    path.mkdir()
    (path / "link").symlink_to(case.canary)
    (path / "00000000000000000000.log").symlink_to(case.canary / "file")


def odd_name(case: Case) -> None:
    name = case.dice.choice(
        (b"\xff\xfe-0", b"a b-0", b"a\n-0", b"-0", b"a-", b"a-01", b"\xe2\x82-7", b"..-0", b"x-future")
    )
    Path(os.fsdecode(bytes(case.root) + b"/" + name)).mkdir()


def copy_partition(case: Case) -> None:
    source = case.directory()
    if source != case.root:
        target = case.root / f"{case.dice.choice(('plain', 'new'))}-{case.dice.randrange(3)}"
        small = {path.name for path in case.files() if path.parent == source}

        def others(_: str, names: list[str]) -> list[str]:
            return [name for name in names if name not in small]

        shutil.copytree(source, target, ignore=others)  # no link to /dev/zero, no giant


# ---- what is written into small files


def put(path: Path, text: str) -> None:
    """Write a file in the place of whatever is there."""
    path.unlink(missing_ok=True)
    path.write_text(text)


def lie_in_checkpoint(case: Case) -> None:
    dice = case.dice
    name = dice.choice(("recovery-point", "log-start", "replication", "cleaner"))
    lines = [
        f"{dice.choice(('plain', 'txn', 'no'))} {dice.choice(NUMBERS)} {dice.choice(NUMBERS)}" for _ in "ab"
    ]
    lines.append(f"plain 0 {dice.choice(NUMBERS)}")
    count = dice.choice((3, 3, 2, 2**31 - 1))
    put(case.root / f"{name}-offset-checkpoint", "\n".join(["0", str(count), *lines, ""]))


def lie_about_ids(case: Case) -> None:
    other = case.dice.choice(("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAABA", "not an id", "x" * 22))
    for path in case.files():
        if path.name in ("partition.metadata", "meta.properties") and case.dice.random() < 0.5:
            text = path.read_text(errors="replace")
            path.write_text(
                re.sub(r"(topic_id|directory\.id|cluster\.id|node\.id)(=|: ).*", rf"\1\2{other}", text)
            )


def lie_in_epochs(case: Case) -> None:
    dice = case.dice
    lines = [f"{dice.choice(NUMBERS)} {dice.choice(NUMBERS)}" for _ in range(3)]
    put(case.directory() / "leader-epoch-checkpoint", "\n".join(["0", "3", *lines, ""]))


def lie_in_journal(case: Case) -> None:
    dice = case.dice
    whose = ""
    properties = case.root / "meta.properties"
    for line in properties.read_text(errors="replace").split("\n") if properties in case.files() else ():
        if line.startswith("directory.id=") and dice.random() < 0.8:
            whose = line.partition("=")[2]
    staging = dice.choice(
        (str(case.canary), "../canary", ".", "..", "/", "plain-0", "../nowhere", "../canary/\0", "")
    )
    pending = {
        "query": "q",
        "batch": dice.choice(NUMBERS),
        "staging": staging,
        "manifests": dice.choice((["x"], ["../file"], [], ["file"], 7)),
        "goes_back": dice.random() < 0.5,
        "partitions": [["plain", *(dice.choice(NUMBERS[:4]) for _ in range(6))]],
    }
    body = json.dumps({"sequence": 1, "committed": {}, "pending": pending, "root": whose}).encode()
    put(case.root / JOURNAL_FILE, f"1\n{zlib.crc32(body):08x}\n{body.decode()}\n")
    if dice.random() < 0.2:
        (case.canary / MARK_FILE).write_text("1\nAAAAAAAAAAAAAAAAAAAAAA\n")


ACTS: tuple[Callable[[Case], None], ...] = (
    *(flip_bits,) * 5,
    *(set_numbers, cut) * 3,
    *(extend, grow_vast, replace_bytes, swap, duplicate, rename_segment, remove, remove_all_of_a_kind),
    *(put_link, put_fifo, put_directory, link_directory, plant_directory, odd_name, copy_partition),
    *(lie_in_checkpoint, lie_about_ids, lie_in_epochs, lie_in_journal),
)

EXPECTED = (TidelogError, OSError)
"""What a hostile directory may raise."""
