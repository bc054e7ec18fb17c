"""Files of every form, most of them damaged, through the file layer of a replay, and the decoders of native events and of a reader."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from streammetrics.config import Settings
from streammetrics.connectors.files import FileSource
from streammetrics.connectors.source import Input
from streammetrics.errors import ConfigError, SourceError
from streammetrics.events import Decoder
from streammetrics.wiring.decoders import build_decoder, has_reader
from tests.connectors.file_formats.forms import FORMS, PACKINGS, combinations
from tests.tools.bench.parts import WrongAnswerError
from tests.tools.fuzz.laws import Outcomes, only_explainers
from tests.tools.fuzz.mutations import damaged
from tests.tools.fuzz.topics import ROWS, Event, events

EVENTS: Final = 60


class Files:
    """Writes and reads files of all forms. `outcomes` has the records that came of them, by the form of the file."""

    def __init__(self, outcomes: Outcomes, folder: Path, random: Random) -> None:
        self.outcomes, self.random, self.path = outcomes, random, folder / "events"
        self.ends: Counter[str] = Counter()
        """How files ended: `whole`, or `cut short` with an error that names the place."""
        stream = events(random)
        sent: list[Event] = [next(stream) for _ in range(EVENTS)]
        self._contents = {pair: PACKINGS[pair[1]](FORMS[pair[0]](sent)) for pair in combinations()}
        (folder / "rows.py").write_text(ROWS)
        by_rows = Settings.model_validate({"events": {"reader": f"{folder}/rows.py:read"}})
        self._decoders = [_decoders(settings) for settings in (Settings(), by_rows)]

    def check(self, records: int) -> None:
        """Read files until so many records came of them. Raises WrongAnswerError, and whatever is no refusal of a file."""
        ends = self.outcomes.total + records
        while self.outcomes.total < ends:
            (form, packing), content = self.random.choice(list(self._contents.items()))
            other = self._contents[form, "plain"]
            changed = damaged(self.random, content, other, most=self.random.choice((1, 3, 20)))
            for parse, explain, has_texts in self._decoders:
                number = self._read(form, changed, self.outcomes.checked(f"file: {form}", parse, explain), has_texts)
                if changed == content and number != EVENTS:
                    raise WrongAnswerError(f"{form} in {packing}: {number} of {EVENTS} records of a file without damage were read")

    def _read(self, form: str, content: bytes, decode: Decoder, has_texts: bool) -> int:
        """Return how many records a file has."""
        self.path.write_bytes(content)
        source = FileSource([str(self.path)], has_texts=lambda path: has_texts)
        numbers = list[int]()
        source.start(0, {})
        try:
            while not source.exhausted:
                records = source.poll(0).records.get(Input(str(self.path), 0), ())
                for record in records:
                    decode(record.value)
                numbers += [record.offset for record in records]
            self.ends["whole"] += 1
        except (SourceError, ConfigError):
            self.ends["cut short"] += 1
        finally:
            source.close()
        if numbers != sorted(set(numbers)):
            raise WrongAnswerError(f"{form}: the numbers of records do not rise: {numbers}")
        return len(numbers)


def _decoders(settings: Settings) -> tuple[Decoder, Decoder, bool]:
    """Return the decoder of files, the same by explainers alone, and whether the cells of CSV stay texts."""
    with only_explainers():
        explain = build_decoder(settings)
    return build_decoder(settings), explain, has_reader(settings, "")
