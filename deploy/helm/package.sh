#!/bin/sh
# Packages the chart with the alerting rules and dashboards of this checkout in it: package.sh [DIRECTORY, by default dist]
#
# They are copied here, and only here, so that the repository holds them once. IMAGE_REGISTRY, IMAGE_REPOSITORY and IMAGE_DIGEST, if set,
# become the chart's default image: the publishing workflow names the image that it has just pushed.
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
cp "$root"/grafana/*.json "$stage/streammetrics/files/dashboards/"
values="$stage/streammetrics/values.yaml"
for name in registry repository digest; do
    variable=IMAGE_$(echo "$name" | tr '[:lower:]' '[:upper:]')
    eval "value=\${$variable:-}"
    case "$value" in *[!A-Za-z0-9._/:-]*) echo "$variable: got $value; allowed are letters, digits and . _ / : -" >&2; exit 2 ;; esac
    [ -z "$value" ] || sed -i "/^image:/,/^[a-z]/s|^  $name: .*|  $name: \"$value\"|" "$values"
done
"$helm" package "$stage/streammetrics" --destination "$out"
