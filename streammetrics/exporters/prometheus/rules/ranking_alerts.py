"""Alerts about the ranking and its experiments. `@name` stands for an option or a threshold."""

from __future__ import annotations

from streammetrics.exporters.prometheus.rules.model import Alert
from streammetrics.exporters.prometheus.rules.templates import REGRESSED_MEASURES, in_one_stage, regressed_measures, regressed_since

_INVALID = "and on (job, experiment, scope) job_experiment:streammetrics_experiment_verdict:min == -2"
_SCOPE = '{{ if eq $labels.scope "day" }}since midnight UTC{{ else }}since it began{{ end }}'
_EXPLAINS = "Streammetrics(NoTraffic|JoinUnhealthy)"
"""Alerts that explain a bad hour, even when they end before the hour does."""
_FELL = (
    "job:streammetrics_final_quality:mean1h\n"
    "and job:streammetrics_final_quality:unexplained1h < (1 - @{drop}) * job:streammetrics_final_quality:reference1h\n"
    "and job:streammetrics_final_lists:increase1h >= @fell_lists_least\n"
    f'unless on (job) count by (job) (\n  count_over_time(ALERTS{{alertname=~"{_EXPLAINS}", alertstate="firing"}}[1h])\n)'
)
_FELL_SUMMARY = 'Ranking quality of all traffic fell to a mean @metric@@@k of {{ printf "%.3f" $value }}'
_WORSE = "count by (experiment, variant) (streammetrics_experiment_verdict{job='%s', variant!=''} == -1)"
"""The variants with a measure that regressed, whether it pages or not."""
_ANY_VERDICT = "streammetrics_experiment_verdict{job='%s', variant!=''}"
_OF_VARIANTS = (
    f'{{{{ with query (printf "{_WORSE}" $labels.job) }}}}Variants that rank worse than their control:'
    '{{ range . | sortByLabel "variant" }} {{ .Labels.variant }} of {{ .Labels.experiment }}{{ end }}.'
    f'{{{{ else }}}}{{{{ with query (printf "{_ANY_VERDICT}" $labels.job) }}}}No variant ranks worse than its control.'
    "{{ else }}No experiment is running.{{ end }}{{ end }}"
)
"""What the experiments say at the time of the alert."""
_FELL_DESCRIPTION = (
    "The final lists of the last hour are worse by more than @{drop} than those of the same hour yesterday or last week, whichever was "
    "lower ({{ range query (printf \"job:streammetrics_final_quality:reference1h{job='%s'}\" $labels.job) }}"
    f'{{{{ printf "%.3f" .Value }}}}{{{{ end }}}}). What variants with an alert of their own cost is left out. {_OF_VARIANTS}'
)

RANKING_ALERTS = (
    # --- ranking
    Alert(
        "StreammetricsRankingRegressed",
        "critical",
        "5m",
        "min by (job, experiment, variant) (\n"
        "  streammetrics_experiment_judged_lift_upper\n"
        f"  and on (job, instance, experiment, variant, metric, k, scope) {REGRESSED_MEASURES}\n"
        ") < -@regressed_critical",
        "{{ $labels.variant }} of {{ $labels.experiment }} ranks worse than control by more than @regressed_critical" + in_one_stage(),
        f"{regressed_measures()}{regressed_since()}",
        "experiment",
        keeps="15m",
    ),
    Alert(
        "StreammetricsRankingRegressed",
        "warning",
        "5m",
        f"count by (job, experiment, variant) (count by (job, experiment, variant, metric, k) (\n  {REGRESSED_MEASURES}\n))",
        "{{ $labels.variant }} of {{ $labels.experiment }} ranks worse than control",
        f"{regressed_measures()}{regressed_since()}",
        "experiment",
        keeps="15m",
    ),
    Alert(
        "StreammetricsAllVariantsFell",
        "critical",
        "30m",
        _FELL.replace("{drop}", "fell_critical"),
        _FELL_SUMMARY,
        _FELL_DESCRIPTION.replace("@{drop}", "@fell_critical"),
        "ranking",
    ),
    Alert(
        "StreammetricsAllVariantsFell",
        "warning",
        "30m",
        _FELL.replace("{drop}", "fell_warning"),
        _FELL_SUMMARY,
        _FELL_DESCRIPTION.replace("@{drop}", "@fell_warning"),
        "ranking",
    ),
    Alert(
        "StreammetricsZeroResultsRose",
        "warning",
        "30m",
        "job:streammetrics_final_zero_results:ratio1h > @zero_results_factor * (job:streammetrics_final_zero_results:ratio1h offset 1w)\n"
        "and job:streammetrics_final_zero_results:ratio1h > @zero_results_share\n"
        "and job:streammetrics_final_lists:increase1h >= @fell_lists_least",
        "{{ $value | humanizePercentage }} of the lists of all traffic have no item",
        "This is more than @zero_results_factor times the share of the same hour last week. Users see empty lists.",
        "ranking",
    ),
    # --- invalid experiments
    Alert(
        "StreammetricsSampleRatioMismatch",
        "warning",
        "10m",
        f"min by (job, experiment, scope) (streammetrics_experiment_srm_p_value) < @sample_ratio_p\n{_INVALID}",
        "Users of {{ $labels.experiment }} are not split as configured",
        f"Counted {_SCOPE}, the p-value of the split is {{{{ $value }}}}. Its verdicts are invalid, and it does not page.",
        "experiment",
    ),
    Alert(
        "StreammetricsMultiExposure",
        "warning",
        "10m",
        "max by (job, experiment, scope) (streammetrics_experiment_multi_exposed_users)\n"
        "/ (\n"
        "  max by (job, experiment, scope) (streammetrics_experiment_multi_exposed_users)\n"
        '  + sum by (job, experiment, scope) (max by (job, experiment, scope, variant) (streammetrics_experiment_users{variant!=""}))\n'
        f") > @multi_exposed_share\n{_INVALID}",
        "{{ $value | humanizePercentage }} of the users of {{ $labels.experiment }} saw more than one variant",
        f"Counted {_SCOPE}. They are excluded. So many make the experiment invalid, and it does not page.",
        "experiment",
    ),
    Alert(
        "StreammetricsExperimentInvalid",
        "warning",
        "30m",
        "job_experiment:streammetrics_experiment_verdict:min == -2",
        "The numbers of {{ $labels.experiment }} cannot be trusted",
        f"Counted {_SCOPE}, its verdict is invalid, and no other alert explains it. It does not page.",
        "experiment",
    ),
    Alert(
        "StreammetricsVerdictMixed",
        "warning",
        "30m",
        "job_experiment:streammetrics_experiment_verdict:min == -3",
        "The measures of {{ $labels.experiment }} contradict each other",
        f"Counted {_SCOPE}, one deciding measure is better than control and another worse. It does not page as a regression.",
        "experiment",
    ),
)
