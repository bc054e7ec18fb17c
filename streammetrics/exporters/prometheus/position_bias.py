"""Turn the examination curve of a report into rows of series. The series and their help say that they are estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streammetrics.exporters.prometheus.labels import ShownGroup
from streammetrics.metrics import parse_metric
from streammetrics.reports.position_bias import PositionBias
from streammetrics.windows.panes import Group


def position_bias_groups(found: PositionBias | None) -> Iterator[Group]:
    """Yield every variant as a group that needs a name."""
    for each in () if found is None else found.variants:
        yield Group(each.experiment, each.variant)


def position_bias_rows(
    found: PositionBias | None, groups: Mapping[Group, ShownGroup]
) -> tuple[list[tuple[str, tuple[str, ...], float]], int]:
    """Return (name, label values, value) of each series, and the number left out because of folded names."""
    if found is None or found.curve is None:
        return [], 0
    curve, left_out = found.curve, 0
    rows: list[tuple[str, tuple[str, ...], float]] = [
        ("streammetrics_examination_items", (), curve.items),
        ("streammetrics_examination_shared_items", (), curve.shared_items),
        ("streammetrics_examination_sampled_ratio", (), found.sampled_share),
    ]
    for each in curve.ranks:
        for name, value in (("", each.examination), ("_lower", each.lower), ("_upper", each.upper)):
            if value is not None:
                rows.append((f"streammetrics_examination{name}", (str(each.rank),), value))
    for of in found.variants:
        shown = groups[Group(of.experiment, of.variant)]
        series = (("streammetrics_uncorrected_dcg", of.dcg), ("streammetrics_corrected_dcg", of.corrected_dcg))
        if shown.is_folded:
            left_out += sum(len(values) for _, values in series)
            continue
        for name, values in series:
            rows += [(name, (shown.experiment, shown.variant, str(parse_metric(metric).k)), value) for metric, value in values.items()]
    return rows, left_out
