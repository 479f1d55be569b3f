#!/bin/sh
# Works only while its elector proves that this pod leads. Needs curl and awk; Linux.
# A shell has no second thread to follow a stream: it asks before each unit of work.
set -eu
elector="${ELECTOR:-http://127.0.0.1:4040}"
trap 'exit 0' TERM

# The time until which the lead is proven and the fencing token, as "SECONDS TOKEN"; fails where
# this pod does not lead. Two seconds are more than an elector of the same pod ever takes.
proof() {
    curl -fsS -m 2 -o /dev/null -D - "$elector/readyz" 2>/dev/null | tr -d '\r' | awk '
        tolower($1) == "x-leader-valid-until:" { until = $2 }
        tolower($1) == "x-leader-fencing-token:" { token = $2 }
        END { if (until == "" || token == "") exit 1; print until, token }'
}

# Whether $1 is still ahead, by the clock that it counts: /proc/uptime, 10 ms coarse. `date` and
# $SECONDS are other clocks.
is_before() {
    awk -v until="$1" '{ exit !($1 + 0.01 < until) }' /proc/uptime
}

while :; do
    if found="$(proof)" && is_before "${found% *}"; then
        echo "${found#* }" >>"$LEDGER" # one unit of work
    fi
    sleep 0.05
done
