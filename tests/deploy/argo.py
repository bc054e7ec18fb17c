"""The Argo Rollouts of `deploy`, and what Argo makes of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from tests.deploy.tools import DEPLOY, read_yaml

ROLLOUTS = DEPLOY / "rollouts"
ARGO = sorted(ROLLOUTS.glob("argo-*.yaml"))


def metric(name: str) -> Mapping[str, Any]:
    (metric,) = read_yaml(ROLLOUTS / f"argo-analysis-{name}.yaml")["spec"]["metrics"]
    return metric  # type: ignore[no-any-return]


def outcome(conditions: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """What Argo Rollouts makes of a JSON object: both conditions are expressions, and neither means inconclusive."""

    def holds(condition: str) -> bool:
        return bool(eval(condition.replace("&&", "and"), {"__builtins__": {}}, {"result": SimpleNamespace(**result)}))

    success, failure = holds(conditions["successCondition"]), holds(conditions["failureCondition"])
    return {(True, False): "pass", (False, True): "fail", (False, False): "wait"}[success, failure]
