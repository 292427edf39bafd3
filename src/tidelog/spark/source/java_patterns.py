"""Regular expressions of `subscribePattern`: Java's, as far as Python's mean the same.

The connector gives the pattern to Java, and takes the topics in whose name it finds a match: `orders` takes
`orders-eu` too, `^orders$` does not. What both languages read alike is taken: literals, `.`, `^`, `$`, `|`,
groups, `(?:...)`, look-ahead and look-behind, `* + ? {n} {n,} {n,m}` and their lazy forms, classes such as
`[a-z_]`, and `\\d \\w \\s \\b` with their opposites. All else would be an error in one of them, or mean
something else, and is refused.
"""

from __future__ import annotations

import re
import warnings
from functools import cache

__all__ = ["java_pattern"]

_REPETITION = re.compile(r"\{\d+(,\d*)?\}")
_LETTERS = frozenset("dDwWsSbBtnrfA")
_GROUPS = ("(?:", "(?=", "(?!", "(?<=", "(?<!")


@cache
def java_pattern(text: str) -> re.Pattern[str]:
    """The pattern that `text` is in Java and Python alike; ValueError names what is not."""
    if not text.strip():
        raise ValueError("the pattern is empty")
    plain = _translated(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of set operations, which are refused already
            return re.compile(plain, re.ASCII)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None


def _translated(text: str) -> str:
    """The same pattern in Python: only the end of the text is written otherwise."""
    at = 0
    found = ""
    while at < len(text):
        start, sign = at, text[at]
        if sign == "\\":
            at = _escape(text, at, in_class=False)
        elif sign == "[":
            at = _class(text, at)
        elif sign == "(":
            at = _group(text, at)
        elif sign in "*+?{":
            at = _quantifier(text, at)
        else:
            at += 1
        piece = text[start:at]
        found += "\\Z" if piece == "\\z" else piece
    return found


def _escape(text: str, at: int, *, in_class: bool) -> int:
    following = text[at + 1 : at + 2]
    if not following:
        raise ValueError("no regular expression: it ends with a backslash")
    if following == "x" and re.fullmatch("[0-9a-fA-F]{2}", text[at + 2 : at + 4]):
        return at + 4
    if following == "u" and re.fullmatch("[0-9a-fA-F]{4}", text[at + 2 : at + 6]):
        return at + 6
    is_reference = following in "123456789" and not text[at + 2 : at + 3].isdigit()
    allowed = _LETTERS - frozenset("bBA") if in_class else _LETTERS | frozenset("zZ")
    if following in allowed or (is_reference and not in_class):
        return at + 2
    if following.isascii() and following.isalnum():
        raise ValueError(_refused(text[at : at + 2]))
    return at + 2


def _class(text: str, at: int) -> int:
    """Past a class. Java has unions and intersections in it, of which Python makes plain characters."""
    at += 1
    if text[at : at + 1] == "^":
        at += 1
    if text[at : at + 1] == "]":
        raise ValueError(_refused("[]", "write \\]"))
    while at < len(text) and text[at] != "]":
        if text[at] == "\\":
            at = _escape(text, at, in_class=True)
        elif text[at] == "[":
            raise ValueError(_refused("[ in a class", "write \\["))
        elif text[at : at + 2] == "&&":
            raise ValueError(_refused("&& in a class"))
        else:
            at += 1
    return at + 1


def _group(text: str, at: int) -> int:
    if text[at + 1 : at + 2] != "?":
        return at + 1
    for sign in _GROUPS:
        if text.startswith(sign, at):
            return at + len(sign)
    raise ValueError(_refused(text[at : at + 4]))


def _quantifier(text: str, at: int) -> int:
    if text[at] == "{":
        found = _REPETITION.match(text, at)
        if found is None:
            raise ValueError(_refused("{", "write \\{"))
        at = found.end()
    else:
        at += 1
    following = text[at : at + 1]
    if following == "+":
        raise ValueError(_refused("a possessive quantifier", "leave out the last +"))
    return at + 1 if following == "?" else at


def _refused(what: str, advice: str = "name the topics in another way") -> str:
    return f"{what} does not mean the same in Python as in Java, which the Kafka connector uses: {advice}"
