"""The whole table: thresholds, recorded series, alerts, and inhibitions between them. Pure data.

The pages in deploy/runbooks say what to do for each alert.
"""

from __future__ import annotations

from streammetrics.exporters.prometheus.rules.model import Alert, Inhibition
from streammetrics.exporters.prometheus.rules.pipeline_alerts import PIPELINE_ALERTS
from streammetrics.exporters.prometheus.rules.ranking_alerts import RANKING_ALERTS

ALERTS: tuple[Alert, ...] = (*RANKING_ALERTS, *PIPELINE_ALERTS)

INHIBITIONS = (
    Inhibition(
        "StreammetricsAbsent",
        (
            "StreammetricsTargetDown",
            "StreammetricsWatermarkStalled",
            "StreammetricsLagGrowing",
            "StreammetricsNoTraffic",
            "StreammetricsRebalanceStorm",
        ),
    ),
    Inhibition(
        "StreammetricsRedisDown",
        (
            "StreammetricsAbsent",
            "StreammetricsWatermarkStalled",
            "StreammetricsLagGrowing",
            "StreammetricsCommitsFailing",
            "StreammetricsNoTraffic",
            "StreammetricsRebalanceStorm",
            "StreammetricsWebhookFailing",
        ),
    ),
    Inhibition(
        "StreammetricsKafkaDown",
        (
            "StreammetricsWatermarkStalled",
            "StreammetricsLagGrowing",
            "StreammetricsNoTraffic",
            "StreammetricsRebalanceStorm",
            "StreammetricsClientDeaf",
            "StreammetricsResultsFailing",
        ),
    ),
    Inhibition("StreammetricsRegistryDown", ("StreammetricsWatermarkStalled", "StreammetricsLagGrowing", "StreammetricsNoTraffic")),
    Inhibition("StreammetricsClientDeaf", ("StreammetricsWatermarkStalled", "StreammetricsLagGrowing")),
    Inhibition("StreammetricsRebalanceStorm", ("StreammetricsWatermarkStalled", "StreammetricsLagGrowing", "StreammetricsCommitsFailing")),
    Inhibition("StreammetricsCommitsFailing", ("StreammetricsWatermarkStalled", "StreammetricsLagGrowing")),
    Inhibition("StreammetricsNoTraffic", ("StreammetricsJoinUnhealthy", "StreammetricsAllVariantsFell")),
    Inhibition("StreammetricsEventsRefused", ("StreammetricsJoinUnhealthy",)),
    Inhibition("StreammetricsUsersOnSeveralPartitions", ("StreammetricsJoinUnhealthy",)),
    Inhibition("StreammetricsJoinUnhealthy", ("StreammetricsAllVariantsFell", "StreammetricsExperimentInvalid")),
    Inhibition("StreammetricsSampleRatioMismatch", ("StreammetricsExperimentInvalid",), ("job", "experiment")),
    Inhibition("StreammetricsMultiExposure", ("StreammetricsExperimentInvalid",), ("job", "experiment")),
)
