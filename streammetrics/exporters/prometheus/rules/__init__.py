"""Recording rules, alerting rules and the configuration of Alertmanager: a table, and the files made of it.

`table` lists thresholds, recorded series, alerts and inhibitions. `render` turns them into files. Pure: reads and writes no file.
"""
