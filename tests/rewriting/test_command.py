"""`tidelog rewrite` as it is run: what it says, refuses and leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import Answer, run
from tests.doctor.harming import flip, log
from tests.rewriting.rewritten import files, records, root_with
from tidelog.storage.lock import RootLock


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return root_with(tmp_path / "root", "golden-none-0", "golden-zstd-0")


def lines(told: Answer) -> list[dict[str, object]]:
    return [json.loads(line) for line in told.lines]


def test_a_dry_run_is_what_then_happens(root: Path) -> None:
    before = files(root)
    asked = ("rewrite", root, "--erase", "--key-match", "7$", "--json")
    planned = lines(run(*asked, "--dry-run"))
    assert files(root) == before
    assert not (root / ".lock").exists()
    done = lines(run(*asked))
    assert done == planned
    assert [one["partition"] for one in done] == ["golden-none-0", "golden-zstd-0"]
    assert all(one["records_erased"] for one in done)


def test_the_keys_of_a_file_are_erased_and_the_manifest_names_none(root: Path, tmp_path: Path) -> None:
    keys = sorted({key for key in records(root, "golden-none-0")["key"].to_pylist() if key})[:40]
    listed, manifest = tmp_path / "keys", tmp_path / "manifest.json"
    listed.write_bytes(b"\n".join(keys) + b"\n")
    told = run("rewrite", root / "golden-none", "--erase", "--keys-from", listed, "--manifest", manifest)
    assert told.code == 0
    assert "--empty-quarantine" in told.out
    assert not set(keys) & set(records(root, "golden-none-0")["key"].to_pylist())
    text = manifest.read_text()
    assert not any(key.decode() in text for key in keys)
    found = json.loads(text)
    assert found["edits"]["keys"] == 40
    (partition,) = found["partitions"]
    first = partition["segments"][0]
    assert len(first["sha256_before"]) == len(first["sha256_after"]) == 64
    assert sum(end - start for start, end in first["offset_ranges"]) == first["records_erased"]


def test_a_manifest_that_cannot_be_written_is_refused_before_the_work(root: Path, tmp_path: Path) -> None:
    """Records that are discarded cannot be told of afterwards."""
    before = files(root)
    for bad in (tmp_path / "nowhere" / "m.json", tmp_path):
        told = run("rewrite", root, "--erase", "--key-match", "7$", "--discard", "--manifest", bad)
        assert told.code == 2
        assert files(root) == before
    asked = ("rewrite", root, "--erase", "--key-match", "7$", "--manifest", tmp_path / "m.json")
    told = run(*asked, "--dry-run")
    assert "a dry run writes no manifest" in told.out
    assert not (tmp_path / "m.json").exists()
    assert run(*asked, "--discard").code == 0
    assert json.loads((tmp_path / "m.json").read_text())["partitions"]
    assert not list(tmp_path.glob(".m.json*"))


def test_the_lines_of_a_file_of_keys_may_end_as_on_windows(root: Path, tmp_path: Path) -> None:
    keys = sorted({key for key in records(root, "golden-none-0")["key"].to_pylist() if key})[:4]
    (tmp_path / "keys").write_bytes(b"\r\n".join(keys) + b"\r\n")
    told = lines(run("rewrite", root / "golden-none", "--erase", "--keys-from", tmp_path / "keys", "--json"))
    assert all(one["records_erased"] for one in told)
    assert not set(keys) & set(records(root, "golden-none-0")["key"].to_pylist())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--erase",), "say which"),
        (("--key", "a"), "say which of both"),
        (("--erase", "--redact", "value", "--key", "a"), "choose one"),
        (("--redact", "colour", "--key", "a"), "cannot redact 'colour'"),
        ((), "nothing to do"),
        (("--level", "3", "--upgrade"), "needs a codec"),
        (("--compression", "rar"), "there is no codec rar"),
        (("--compression", "gzip", "--level", "99"), "gzip has no compression level 99"),
        (("--earliest", "2000", "--latest", "1000"), "of which the first is earlier"),
        (("--erase", "--key", "xyz", "--keys-hex"), "hexadecimal"),
        (("--erase", "--key-match", "["), "not a regular expression"),
    ],
)
def test_what_does_not_go_together_is_refused(root: Path, args: tuple[str, ...], words: str) -> None:
    told = run("rewrite", root, *args)
    assert told.code == 2
    assert words in told.err
    assert told.err.count("\n") == 1


def test_a_root_in_use_or_not_closed_in_order_is_refused(root: Path) -> None:
    erase = ("rewrite", root, "--erase", "--key", "a")
    lock = RootLock(str(root))
    try:
        assert run(*erase).code == 1
        assert "in use" in run(*erase, "--dry-run").err
    finally:
        lock.release()
    metadata = root / "__cluster_metadata-0"
    assert "never rewritten" in run("rewrite", metadata, "--upgrade").err
    (root / ".kafka_cleanshutdown").unlink()
    assert "was not closed cleanly" in run(*erase).err
    assert run("rewrite", root / "golden-missing", "--erase", "--key", "a").code == 2


def test_damage_ends_it_before_anything_changes(root: Path) -> None:
    flip(log(root, number=3), 200)
    before = files(root)
    told = run("rewrite", root, "--erase", "--key-match", "7$")
    assert told.code == 1
    assert "checksum" in told.err
    assert files(root) == before


def test_a_link_to_a_directory_of_somebody_elses_is_refused(root: Path, tmp_path: Path) -> None:
    precious = tmp_path / "elsewhere" / "staged" / "precious"
    precious.parent.mkdir(parents=True)
    precious.touch()
    (root / "golden-none-0" / ".tidelog-quarantine").symlink_to(tmp_path / "elsewhere")
    told = run("rewrite", root, "--erase", "--key-match", "7$")
    assert told.code == 1
    assert ".tidelog-quarantine is a symbolic link" in told.err
    assert precious.exists()
