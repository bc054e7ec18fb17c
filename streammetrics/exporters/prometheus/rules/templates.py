"""Parts of annotations and expressions that several alerts share."""

from __future__ import annotations


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
