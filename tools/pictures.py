"""`make pictures`: the pictures of the report in docs/images, from a root that is made for it.

A store with a few topics is written, and its report is opened in Chromium (`tests/browser.py`).
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.browser import Browser, find_browser

import tidelog
from tidelog import Record
from tidelog.report.facts import gather
from tidelog.report.page import page

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SHOWN = "/var/lib/kafka/data"
"""Where the pictures say that the root is."""
HOUR_MS = 3_600_000
TOPICS = {"orders": (4, 900, "zstd"), "payments": (3, 500, "lz4"), "clicks": (6, 1500, "uncompressed")}
PICTURES = {
    "report-overview": ("#/", 1280, 900, False),
    "report-partition": ("#/partition/orders-0", 1280, 900, True),
}


def write(root: Path, now_ms: int) -> None:
    """Three days of three topics."""
    chance = random.Random(0)
    config = {"segment.ms": 8 * HOUR_MS, "retention.ms": 4 * 24 * HOUR_MS}
    with tidelog.open(root) as store:
        for name, (partitions, most, codec) in TOPICS.items():
            store.create_topic(name, partitions=partitions, config=config | {"compression.type": codec})
            for number in range(partitions):
                for hour in range(72):
                    first = now_ms - (72 - hour) * HOUR_MS
                    records = [
                        Record(chance.randbytes(40).hex().encode(), b"key-%d" % n, timestamp=first + n)
                        for n in range(chance.randrange(most // 10, most) // 10)
                    ]
                    store[name][number].append(records)


def main() -> int:
    """Make the pictures; the exit code."""
    program = find_browser()
    if program is None:
        print("no Chromium on the path: `make browser` installs it", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as directory, Browser(program) as browser:
        root = Path(directory) / "data"
        write(root, time.time_ns() // 1_000_000)
        html = Path(directory) / "report.html"
        facts = json.dumps(gather(root, examine=True)).replace(str(root), SHOWN)
        html.write_text(page(json.loads(facts)), encoding="utf-8")
        for name, (fragment, width, height, dark) in PICTURES.items():
            with browser.tab(width=width, height=height, dark=dark) as tab:
                tab.open(html.as_uri() + fragment)
                tab.wait("document.querySelectorAll('.chart svg').length > 0")
                tab.wait("new Promise((done) => setTimeout(done, 300, true))")
                tab.screenshot(IMAGES / f"{name}.png")
                print(IMAGES / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
