"""`cat`, `tail` and `search` with values that are decoded by schemas."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import on_terminal, run
from tests.values.test_scan import KEY, LAYOUTS, root, row, schemas

__all__ = ["root"]


def test_cat_shows_values_and_why_others_are_not(root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", LAYOUTS["subjects"])
    typed = ("--value-format", "avro", "--schemas", where)
    answer = run("cat", root, "--topic", "orders", *typed, "--json")
    assert answer.code == 1
    assert "20 values did not decode" in answer.err
    for line in answer.lines:
        found = json.loads(line)
        number = 2 * found["offset"] + found["partition"]
        if number % 10 == 8:
            assert found["value"] == "garbage"
            assert found["value_error"] == "no magic byte and schema id before the value"
        else:
            assert found["value"] == row(number)
            assert "value_error" not in found
    plain = run("cat", root / "orders-1", "-n", "1", *typed)
    assert (plain.code, plain.out) == (0, '{"id":1,"note":null,"currency":"EUR"}\n')
    last = run("tail", root / "orders-0", "-n", "2", *typed)
    assert last.lines == ['{"id":196,"note":"n","currency":"USD"}', "garbage"]
    seen = on_terminal("cat", root / "orders-1", "-n", "1", *typed)
    assert '{"id":1,"note":null,"currency":"EUR"}' in seen.out


def test_keys_are_shown_too(root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", {"orders-key/3.avsc": KEY, **LAYOUTS["subjects"]})
    keys = ("--key-format", "avro", "--schemas", where)
    only = run("cat", root / "orders-1", "-n", "1", "--show", "offset,key", *keys)
    assert only.lines[0].startswith("0\tk1\t")
    both = run(
        "search", root, "--topic", "orders", "--contains", "USD", "--json", "--value-format", "avro", *keys
    )
    assert both.code == 0
    for found in map(json.loads, both.lines):
        assert found["key"] == f"k{found['value']['id']}"
    other = schemas(tmp_path / "other", {"orders-key/4.avsc": KEY})
    bad = run("cat", root / "orders-1", "-n", "2", "--json", "--key-format", "avro", "--schemas", other)
    assert (bad.code, "2 keys did not decode" in bad.err) == (1, True)
    assert [json.loads(line)["key_error"] for line in bad.lines] == ["schema 3 is unknown"] * 2


def test_search_shows_the_values_that_it_finds(root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", LAYOUTS["subjects"])
    answer = run(
        "search",
        root,
        "--topic",
        "orders",
        "--contains",
        "USD",
        "--json",
        "--value-format",
        "avro",
        "--schemas",
        where,
    )
    assert answer.code == 0
    assert [json.loads(line)["value"]["id"] for line in answer.lines] == [
        n for n in range(0, 200, 2) if n % 10 != 8
    ]


def test_what_the_options_refuse(root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", LAYOUTS["ids"])
    for options, said in (
        (("--value-format", "avro"), "avro values need schemas"),
        (("--value-format", "thrift"), "--value-format thrift: choose from"),
        (("--schemas", where), "--schemas, --subject and --registry-option are for"),
        (("--value-format", "avro", "--schemas", where, "--decode", "json"), "leave out --decode"),
        (("--value-format", "avro", "--schemas", tmp_path / "none"), "neither a directory of schemas"),
        (("--key-format", "thrift", "--schemas", where), "--key-format thrift: choose from"),
        (("--key-subject", "x"), "--key-subject is for --key-format"),
        (("--key-format", "avro", "--schemas", where, "--subject", "x"), "are for values in"),
        (("--value-format", "avro", "--schemas", where, "--registry-option", "a=b"), "registry options"),
    ):
        answer = run("cat", root, *options)
        assert answer.code == 2, answer
        assert said in answer.err
    answer = run("export", root, "--to", tmp_path / "lake", "--values", "avro")
    assert (answer.code, "avro values need schemas" in answer.err) == (2, True)
