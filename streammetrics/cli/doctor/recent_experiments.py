"""What `doctor` says about experiments that are over: by their configured end, and by recent lists. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from streammetrics.cli.doctor.findings import DoctorFinding
from streammetrics.cli.doctor.records import DecodedTopic
from streammetrics.config.experiments import ExperimentSettings
from streammetrics.config.times import epoch_ms
from streammetrics.events import Impression
from streammetrics.reports.samples import LISTS_MIN
from streammetrics.reports.text import counted, isolated
from streammetrics.reports.time_text import minute_text


@dataclass(frozen=True, slots=True)
class RecentExperiments:
    """How many lists a sample has, and the times (ms) of those in each experiment."""

    lists: int = 0
    times: Mapping[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, topics: Iterable[DecodedTopic]) -> RecentExperiments:
        """Return the experiments of the lists of these topics."""
        lists = [event for topic in topics for _, event in topic.events() if isinstance(event, Impression)]
        times: dict[str, list[int]] = {}
        for impression in lists:
            for experiment, _ in impression.experiments:
                times.setdefault(experiment, []).append(impression.ts)
        return cls(len(lists), times)

    def ended_findings(self, settings: ExperimentSettings, now_ms: int) -> Iterator[DoctorFinding]:
        """Name experiments whose configured end has passed."""
        for experiment, rules in sorted(settings.named.items()):
            if rules.end is None or (end_ms := epoch_ms(rules.end)) > now_ms:
                continue
            after = sum(ts >= end_ms for ts in self.times.get(experiment, ()))
            text = f"experiment {isolated(experiment)} is over: it ended at {minute_text(end_ms)}"
            if after:
                fix = "switch it off where lists are made, or move its end in experiments.named"
                yield DoctorFinding("warn", f"{text}, and {counted(after, 'recent list')} with its label do not count", fix)
            else:
                yield DoctorFinding("ok", f"{text}, and no recent list has its label")

    def absent_findings(self, experiments: Collection[str]) -> Iterator[DoctorFinding]:
        """Name experiments that have numbers, and no list in a sample that has some."""
        for experiment in sorted(experiments):
            if self.lists >= LISTS_MIN and experiment not in self.times:
                text = f"experiment {isolated(experiment)} has numbers, and none of {counted(self.lists, 'recent list')} is in it"
                yield DoctorFinding("ok", f"{text}: if it is over, set its end in experiments.named")
