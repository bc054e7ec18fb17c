"""The laws of decoding that every record is checked for, and the counts of outcomes by form."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from streammetrics.errors import MalformedEvent
from streammetrics.events import Decoder, Event, native, reader
from streammetrics.events.reader_events import by_json
from tests.tools.bench.parts import WrongAnswerError


@contextmanager
def only_explainers() -> Iterator[None]:
    """Let decoders that are built in the block read every record with the explainer, and none with a typed parser."""

    with (
        patch.object(native, "typed_decoder", lambda limits, explain: explain),
        patch.object(reader, "event_converter", lambda limits, native: lambda event: by_json(event, native)),
    ):
        yield


class Outcomes:
    """What decoders returned, by form: `read`, `nothing` or `several` for each record, or the reason for its refusal."""

    def __init__(self) -> None:
        self.records: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.parts: Counter[str] = Counter()
        """Events and reasons over all forms. A record may have several."""

    @property
    def total(self) -> int:
        return sum(sum(counts.values()) for counts in self.records.values())

    def checked(self, form: str, parse: Decoder, explain: Decoder) -> Decoder:
        """Return a decoder that counts what it returns. It raises WrongAnswerError where parser and explainer differ."""

        def decode(value: bytes | None) -> Sequence[Event | MalformedEvent]:
            parsed = parse(value)
            if str(list(parsed)) != str(list(explain(value))):
                raise WrongAnswerError(f"{form}: the parser finds {parsed}, and the explainer {explain(value)}, in {value!r}")
            names = [part.reason if type(part) is MalformedEvent else "read" for part in parsed]
            self.parts.update(names)
            self.records[form][names[0] if len(set(names)) == 1 else "several" if names else "nothing"] += 1
            return parsed

        return decode


def table(outcomes: Outcomes) -> str:
    """Return the outcomes as a table, one line for each form."""
    lines = [f"{'form':<22}{'records':>9}{'read':>9}{'several':>9}{'nothing':>9}{'ignored':>9}{'refused':>9}  why"]
    columns = ("read", "several", "nothing", "ignored")
    for form, counts in [*outcomes.records.items(), ("all", sum(outcomes.records.values(), Counter()))]:
        refused = Counter({reason: number for reason, number in counts.items() if reason not in columns})
        numbers = (sum(counts.values()), *(counts[name] for name in columns), sum(refused.values()))
        why = ", ".join(f"{reason} {number:,}" for reason, number in refused.most_common())
        lines.append(f"{form:<22}" + "".join(f"{number:>9,}" for number in numbers) + f"  {why}")
    return "\n".join(lines)
