"""The options of `config`, and the reader that it prints."""

from __future__ import annotations

from typing import Final

import click

from streammetrics.cli.command import command

READER_TEMPLATE: Final = '''\
"""Makes events of our records. In the configuration: [events] reader = "reader.py:read"

Try it: streammetrics decode events.ndjson --reader reader.py:read
"""

from streammetrics.readers import Record, ignore, times


def read(record: Record):
    # What a record has: record.json() (parsed JSON), record.row() (a row of CSV or Parquet), record.value (bytes), record.key (bytes or
    # None), record.headers, record.timestamp_ms and record.topic. This function may use nothing else, or a replay gives other numbers.
    event = record.json()

    if event["type"] == "search":  # a list that somebody saw
        yield {
            "type": "impression",
            "impression_id": event["id"],  # text or a whole number. Two lists must not share an id
            "user_id": event["user"],
            "ts": event["at"],  # milliseconds; ISO-8601 text or an aware datetime; or times.seconds(…), times.micros(…), times.text(…)
            "items": [hit["sku"] for hit in event["hits"]],  # best first; or {"id": …, "position": …}
            "experiments": {"ranker": event["variant"]},  # without it, the list is in no experiment
            # "segments": {"surface": event["page"]},  # to see numbers by surface, name it in windows.segments
        }
    elif event["type"] == "click":  # a reaction to an item
        yield {
            "type": "feedback",
            "user_id": event["user"],  # the same user as in the list
            "ts": event["at"],
            "item_id": event["sku"],
            "action": "click",  # join.grades says what it is worth
            "impression_id": event["search"],  # the list; leave it out if the sender does not know it
        }
    elif event["type"] == "order":  # one record may hold several events
        for line in event["lines"]:
            yield {
                "type": "feedback",
                "user_id": event["user"],
                "ts": event["at"],
                "item_id": line["sku"],
                "action": "purchase",
                "value": line["price"],
            }
    else:
        yield ignore(event["type"])  # counted by this reason
    # A field that is missing raises KeyError: the record is refused, counted, and kept in the dead letters with this line.
'''


@command
@click.option("--minimal", "kind", flag_value="minimal", help="The five settings to begin with.")
@click.option(
    "--reference",
    "kind",
    flag_value="reference",
    help="The settings that people change, each with when to do so, its allowed values and default.",
)
@click.option("--reader", "kind", flag_value="reader", help="A reader in Python, for events of your own.")
@click.option("--all", "whole", is_flag=True, help="With --reference: every setting.")
def config(kind: str | None, whole: bool) -> None:
    """Print a configuration file, or a reader, to start from.

    `check-config` checks it, and `doctor` tries it against Kafka and Redis.

    \b
    Examples:
      streammetrics config --minimal > streammetrics.toml
      streammetrics config --reader > reader.py
      streammetrics config --reference | less
      streammetrics config --reference --all | less
    """
    from streammetrics.cli.output.standard_output import standard_output  # noqa: PLC0415
    from streammetrics.config import minimal_toml, reference_toml  # noqa: PLC0415

    if kind is None:
        raise click.UsageError("choose --minimal, --reader or --reference")
    if whole and kind != "reference":
        raise click.UsageError("--all goes with --reference")
    text = READER_TEMPLATE if kind == "reader" else reference_toml(whole=whole) if kind == "reference" else minimal_toml()
    click.echo(text, file=standard_output(), nl=False)
