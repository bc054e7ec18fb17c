"""Dashboards for Grafana as code. `python -m grafana.generate` writes them. The product does not import this package.

The models of Grafana's foundation SDK are imported here once, because each first import logs a deprecation warning about a newer format.
Grafana has read the format that we use since version 8.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import grafana_foundation_sdk.cog.plugins
    import grafana_foundation_sdk.models.common
    import grafana_foundation_sdk.models.dashboard
    import grafana_foundation_sdk.models.prometheus
    import grafana_foundation_sdk.models.stat
    import grafana_foundation_sdk.models.statetimeline
    import grafana_foundation_sdk.models.table
    import grafana_foundation_sdk.models.timeseries  # noqa: F401
