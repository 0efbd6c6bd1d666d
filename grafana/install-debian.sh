#!/bin/sh
# The stack on a Debian host without containers:
#
#     sudo grafana/install-debian.sh USER         USER is who runs pi
#     grafana/install-debian.sh --root DIR USER   only write the files, below DIR, and start nothing
#
# Prometheus is Debian's. Grafana is not in Debian: when its package (apt.grafana.com) is installed, data source and dashboards
# are put in place; otherwise run this again after installing it.
set -eu

root=
if [ "${1-}" = --root ]; then
    root=$2
    shift 2
fi
user=${1-}
here=$(cd "$(dirname "$0")" && pwd)

fail() {
    echo "install-debian.sh: $1" >&2
    exit 2
}

put() { # FROM TO: a file with the host's addresses in place of the containers'
    mkdir -p "$(dirname "$root$2")"
    # shellcheck disable=SC2016  # the variable is Grafana's
    sed -e 's#pimetrics:9746#127.0.0.1:9746#' -e 's#\$PIMETRICS_PROMETHEUS_URL#http://127.0.0.1:9090#' "$1" >"$root$2"
    chmod 0644 "$root$2"
}

[ -n "$user" ] || fail 'name the user who runs pi: sudo grafana/install-debian.sh USER'
if [ -z "$root" ]; then
    [ "$(id -u)" = 0 ] || fail 'run it with sudo, or with --root DIR to look at what it writes'
    id "$user" >/dev/null 2>&1 || fail "there is no user $user"
    command -v pimetrics >/dev/null || fail 'pimetrics is not in /usr/local/bin: grafana/README.md says how to put it there'
    command -v prometheus >/dev/null || apt-get install --yes prometheus
fi

put "$here/systemd/pimetrics@.service" /etc/systemd/system/pimetrics@.service
put "$here/rules/recording.yaml" /etc/prometheus/rules/pimetrics/recording.yaml
put "$here/rules/alerts.yaml" /etc/prometheus/rules/pimetrics/alerts.yaml

config=/etc/prometheus/prometheus.yml
if [ -e "$root$config" ] && grep -q 'job_name: pimetrics' "$root$config"; then
    echo "$config scrapes pimetrics already: left as it is"
elif [ -e "$root$config" ] && { [ -n "$root" ] || dpkg --verify prometheus | grep -q "$config"; }; then
    put "$here/prometheus.yaml" /etc/prometheus/pimetrics.yml
    echo "$config is your own and is left as it is: add rule_files and scrape_configs of /etc/prometheus/pimetrics.yml to it"
else
    [ ! -e "$root$config" ] || cp "$root$config" "$root$config.before-pimetrics"
    put "$here/prometheus.yaml" "$config"
fi

if [ -n "$root" ] || [ -d /etc/grafana ]; then
    put "$here/provisioning/datasources/pimetrics.yaml" /etc/grafana/provisioning/datasources/pimetrics.yaml
    put "$here/provisioning/dashboards/pimetrics.yaml" /etc/grafana/provisioning/dashboards/pimetrics.yaml
    for board in "$here"/dashboards/*.json; do
        put "$board" "/var/lib/grafana/dashboards/pimetrics/$(basename "$board")"
    done
else
    echo 'Grafana is not installed (apt.grafana.com has its package): run this again when it is'
fi

[ -z "$root" ] || exit 0
# Dots are exemplars, and backfilled blocks need a retention that reaches back to them.
override=/etc/systemd/system/prometheus.service.d/pimetrics.conf
mkdir -p "$(dirname "$override")"
# shellcheck disable=SC2016  # $ARGS is systemd's, from /etc/default/prometheus
printf '[Service]\nExecStart=\nExecStart=/usr/bin/prometheus --enable-feature=exemplar-storage --storage.tsdb.retention.time=400d $ARGS\n' \
    >"$override"
systemctl daemon-reload
systemctl enable --now "pimetrics@$user"
systemctl restart prometheus
[ ! -d /etc/grafana ] || systemctl restart grafana-server
echo 'Grafana: http://127.0.0.1:3000/   Prometheus: http://127.0.0.1:9090/   pimetrics: http://127.0.0.1:9746/'
