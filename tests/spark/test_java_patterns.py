"""`subscribePattern`: what Java and Python read alike means the same; all else is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.spark.source.java_patterns import java_pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = ["orders", "orders-eu", "my.orders", "a", "aa", "aab", "b1", "B_2", "x-1", "]", "a]b", "{", "}", "&"]
TAKEN = [
    *(
        "orders",
        "^orders$",
        "orders.*",
        ".*",
        "a|b",
        "(a|b)+1?",
        "[a-c]{2,}",
        "[^a-z]",
        r"\d",
        r"\w+-\d",
        r"a\.b",
    ),
    *(
        "a{2}",
        "a{1,2}?b",
        "a+?b",
        "(?:a)b",
        "a(?=b)",
        "a(?!b)",
        "(?<=a)b",
        "(?<!a)b",
        r"^\S+\z",
        r"s\Z",
        r"\Aa",
    ),
    *(
        r"\bx",
        r"[\w.-]+",
        r"[\[\]]",
        r"(a)\1",
        r"\x61",
        r"\u0062",
        "]",
        "}",
        "[a-z&]",
        r"\\z|a",
        r"[\d_]$",
        "a$|^b",
    ),
]
REFUSED = [
    *(
        "a*+",
        "a++",
        "a?+",
        "a{2}+",
        r"\p{Alpha}",
        r"\P{L}",
        r"\Qa.b\E",
        "(?i)a",
        "(?x)a b",
        "(?i:a)",
        "(?>a)",
    ),
    *("(?<name>a)", "(?P<name>a)", "(?#x)a", "(a)(?(1)b|c)", "[a-z&&[^b]]", "[a[bc]]", "[a&&b]", "[]a]"),
    *(
        "a{,2}",
        "a{",
        "{1",
        "a{x}",
        r"\v",
        r"\h",
        r"\R",
        r"\G",
        r"\k<a>",
        r"\0",
        r"\cA",
        r"\e",
        r"\N",
        r"[\b]",
    ),
    *(r"\12", "a\\", "(", ")", "[a", "*a", "a**", " ", ""),
]


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_would_mean_something_else_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"does not mean the same|no regular expression|is empty"):
        java_pattern(pattern)


def test_what_is_taken_means_what_java_means(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(p, t) for p in TAKEN for t in TOPICS], "pattern string, topic string")
    for row in frame.selectExpr("pattern", "topic", "topic rlike pattern AS found").collect():
        assert (java_pattern(row.pattern).search(row.topic) is not None) == row.found, row
