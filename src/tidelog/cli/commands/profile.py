"""`tidelog profile`: what is in topics, by partition and hour."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Option

__all__ = ["profile"]


@app.command()
def profile(
    paths: Annotated[
        list[str], Argument(metavar="PATH", help="Root or partition directories, globs, or URLs.")
    ],
    topic: Annotated[list[str] | None, Option("--topic", metavar="NAME", help="Only this topic.")] = None,
    spark: Annotated[str, Option("--spark", metavar="MASTER", help="Spark's master.")] = "local[*]",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Count records, bytes, keys, codecs and out-of-order timestamps of topics, by partition and hour (UTC).

    Distinct keys are approximate, within a few percent. A batch counts for the hour of its largest timestamp.
    """
    from tidelog.cli.render.output import Column, make_output
    from tidelog.spark import profile as run_profile
    from tidelog.spark import quiet_session

    with quiet_session(spark) as session:
        rows = run_profile(session, paths, topics=topic or None)
        found = rows.orderBy("topic", "partition", "hour").toArrow().to_pylist()
    names = [name for name in found[0] if name not in ("topic", "hour")] if found else []
    columns = [Column("topic", "topic"), Column("hour", "hour")]
    columns += [Column(name, name.replace("_", " "), right=name != "codecs", optional=True) for name in names]
    make_output(json=json).table(
        columns,
        (
            [
                row["topic"],
                row["hour"].strftime("%Y-%m-%dT%H:00Z"),
                *(_codecs(row[name]) if name == "codecs" else row[name] for name in names),
            ]
            for row in found
        ),
    )


def _codecs(counts: list[tuple[str, int]]) -> str:
    return " ".join(f"{codec}:{count}" for codec, count in counts)
