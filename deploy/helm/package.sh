#!/bin/sh
# Packages the chart with the alerting rules and dashboards of this checkout in it: package.sh [DIRECTORY, by default dist]
#
# They are copied here, and only here, so that the repository holds them once.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$root/dist}
helm=${HELM:-helm}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

cp -R "$root/deploy/helm/streammetrics" "$stage/"
mkdir -p "$stage/streammetrics/files/rules" "$stage/streammetrics/files/dashboards" "$out"
# Rule files are those with groups; the configurations and tests beside them are not for the chart.
for file in "$root"/deploy/prometheus/*.yml; do
    if grep -q '^groups:' "$file"; then cp "$file" "$stage/streammetrics/files/rules/"; fi
done
cp "$root"/streammetrics/exporters/grafana/*.json "$stage/streammetrics/files/dashboards/"
"$helm" package "$stage/streammetrics" --destination "$out"
