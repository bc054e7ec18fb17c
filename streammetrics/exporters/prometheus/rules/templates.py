"""Parts of annotations and expressions that several alerts share."""

from __future__ import annotations

from typing import Final

REGRESSED_MEASURES: Final = (
    'streammetrics_experiment_verdict{variant!="", metric!=""} == -1\n'
    "  and on (job, instance, experiment, metric, k, scope) streammetrics_experiment_paging == 1\n"
    "  and on (job, experiment, scope) job_experiment:streammetrics_experiment_verdict:min == -1"
)
"""The deciding measures that regressed, of variants whose experiment is sound."""
_OF_VARIANT: Final = "job='%[1]s', experiment=%[2]q, variant=%[3]q"
_OF_MEASURE: Final = f"{_OF_VARIANT}, metric=%[4]q, k=%[5]q, scope=%[6]q"
_LABELS: Final = "$labels.job $labels.experiment $labels.variant"
_LIFT: Final = f"streammetrics_experiment_lift{{{_OF_MEASURE}}}"
_JUDGED: Final = f"streammetrics_experiment_judged_lift_upper{{{_OF_MEASURE}}}"


def rates(counter: str, label: str, span: str) -> str:
    """Return an annotation template with the current rates of a counter by a label, without zeros, sorted by the label.

    Every process that publishes shows the same counters of events, so the template takes their `max`.
    """
    return listed(f"sum by ({label}) (max by (topic, {label}) (rate(streammetrics_{counter}{{job='%s'}}[{span}]))) > 0", label)


def listed(query: str, label: str) -> str:
    entry = f'{{{{ .Labels.{label} }}}} {{{{ printf "%.2g" .Value }}}}'
    return f'{{{{ range query (printf "{query}" $labels.job) | sortByLabel "{label}" }}}} {entry}{{{{ end }}}}'


def down(gauge: str) -> str:
    """Return an annotation template with the instances where a gauge is 0."""
    query = f"streammetrics_{gauge}{{job='%s'}} == 0"
    return f'{{{{ range query (printf "{query}" $labels.job) | sortByLabel "instance" }}}} {{{{ .Labels.instance }}}}{{{{ end }}}}'


def failing(problem: str, counter: str) -> str:
    """Return an expression for failed tries of the last minutes, by their counter. `problem` becomes a label."""
    tries = f'sum by (job) (increase(streammetrics_{counter}{{status="failed"}}[5m])) > 0'
    return f'label_replace({tries}, "problem", "{problem}", "", "")'


def risk(risk: str, value: str, bound: str) -> str:
    """Return an expression for Redis servers with a value beyond a bound. `risk` becomes a label."""
    return f'label_replace(max by (job, node) ({value}) {bound}, "risk", "{risk}", "", "")'


def regressed_measures() -> str:
    """Return an annotation template that says, for each measure of a variant that regressed: its lift, its bound, and the users.

    The bound is that of one stage of a rollout if this stage alone regressed. A control at 0 has no lift, so there is no bound in percent.
    """
    regressed = (
        f"max by (metric, k, scope) (streammetrics_experiment_verdict{{{_OF_VARIANT}, metric!=''}} == -1"
        " and on (instance, metric, k, scope) streammetrics_experiment_paging{job='%[1]s', experiment=%[2]q} == 1)"
    )
    measure = "{{ $one.Labels.metric }}{{ if $one.Labels.k }}@@{{ $one.Labels.k }}{{ end }}"
    since = '{{ if eq $one.Labels.scope "day" }}since midnight UTC{{ else }}since the experiment began{{ end }}'
    sort = '| sortByLabel "k" | sortByLabel "scope" | sortByLabel "metric"'
    one_stage = f"{{{{ $stage := {_of_measure(_bounds_of_one_stage(_OF_MEASURE))} }}}}"
    over_all, in_one = (f"{{{{ if $stage }}}} {where}{{{{ end }}}}" for where in ("over all stages", "in one stage"))
    lift = _found(f"max(100 * {_LIFT})", f': {{{{ printf "%+.3g" . }}}} % against control{over_all}')
    bound = _found(f"min(-100 * {_JUDGED}) and max({_LIFT})", f', certainly worse by {{{{ printf "%.3g" . }}}} %{in_one}')
    no_lift = _found(f"min({_JUDGED}) unless max({_LIFT})", ": the control is at 0, so there is no lift in percent")
    users = _found(f"max(streammetrics_experiment_users{{{_OF_VARIANT}, scope=%[6]q}})", ", {{ . }} users")
    return (
        f'{{{{ range $one := query (printf "{regressed}" {_LABELS}) {sort} }}}}{one_stage}'
        f"{measure} {since}{lift}{bound}{no_lift}{users}. {{{{ end }}}}"
    )


def in_one_stage() -> str:
    """Return an annotation template that says so if the bound that is the alert's value is of one stage of a rollout."""
    query = f"({_bounds_of_one_stage(_OF_VARIANT)}) == %[4]g"
    return f'{{{{ if query (printf "{query}" {_LABELS} $value) }}}} in one stage{{{{ end }}}}'


def _bounds_of_one_stage(which: str) -> str:
    """Return a query for the bounds that decide, as far as they are of one stage: neither end of the interval over all stages.

    The lower end decides if lower is better.
    """
    bounds, measure = f"streammetrics_experiment_judged_lift_upper{{{which}}}", "on (instance, metric, k, scope)"
    ends = (f"{sign}streammetrics_experiment_lift_{end}{{{which}}}" for sign, end in (("", "upper"), ("-1 * ", "lower")))
    stages = "streammetrics_experiment_stage_current{job='%[1]s', experiment=%[2]q}"
    return " unless ".join([f"{bounds} and on (instance, scope) {stages}", *(f"{measure} ({bounds} == {measure} {end})" for end in ends)])


def regressed_since() -> str:
    """Return an annotation template with the time at which the alert of a variant began to hold."""
    query = "min(ALERTS_FOR_STATE{alertname='StreammetricsRankingRegressed', job='%[1]s', experiment=%[2]q, variant=%[3]q})"
    told = "Regressed since {{ . | first | value | humanizeTimestamp }}."
    return f'{{{{ with query (printf "{query}" {_LABELS}) }}}}{told}{{{{ end }}}}'


def _found(query: str, text: str) -> str:
    """Return a template that shows the value of a query about the measure `$one`, if there is one."""
    return f"{{{{ with {_of_measure(query)} }}}}{{{{ with . | first | value }}}}{text}{{{{ end }}}}{{{{ end }}}}"


def _of_measure(query: str) -> str:
    """Return the call of a query about the measure `$one`."""
    return f'query (printf "{query}" {_LABELS} $one.Labels.metric $one.Labels.k $one.Labels.scope)'
