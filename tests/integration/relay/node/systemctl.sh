#!/bin/sh
# systemctl for one node of tests: units of /etc/systemd/system, as processes. In /fake: `calls`, one
# a line; `active/UNIT` with a process id, 0 for what is no process of ours; `log`; `starts/UNIT`, a
# line for each; `kill-at`: the number of the call that ends who calls; `fail`: a pattern of
# calls of which one fails; `environ`: of kubelet's unit; `load`: kubelet's LoadState; `dies`: a unit that once
# does not stay up.
set -u
f=/fake
mkdir -p $f/active $f/starts
echo "$*" >>$f/calls
number=$(wc -l <$f/calls)
if [ "$(cat $f/kill-at 2>/dev/null)" = "$number" ]; then
    kill -9 $PPID
    exit 1
fi
if [ -s $f/fail ] && echo "$*" | grep -qE "$(cat $f/fail)"; then
    rm $f/fail
    echo "Job failed by the test" >&2
    exit 1
fi
verb=$1
shift

pid_of() { cat "$f/active/$1" 2>/dev/null; }

is_alive() {
    pid=$(pid_of "$1")
    [ -n "$pid" ] && { [ "$pid" = 0 ] || [ -e "/proc/$pid" ]; }
}

stop() {
    pid=$(pid_of "$1")
    rm -f "$f/active/$1"
    if [ -n "$pid" ] && [ "$pid" != 0 ]; then
        kill "$pid" 2>/dev/null
        while [ -e "/proc/$pid" ]; do sleep 0.05; done
    fi
}

start() {
    unit=/etc/systemd/system/$1
    [ -e "$unit" ] || { echo "Unit $1 not found." >&2; exit 5; }
    echo started >>"$f/starts/$1"
    echo 0 >"$f/active/$1"
    # Of a process that has ended.
    if [ "$(cat $f/dies 2>/dev/null)" = "$1" ]; then
        echo 999999 >"$f/active/$1"
        rm $f/dies
        return
    fi
    case $1 in
    relay-sidecar.service)
        sed -n 's/^ExecStartPre=[-+]*//p' "$unit" >$f/pre
        sh -e $f/pre >>$f/log 2>&1 || return
        command=$(sed -n 's/^ExecStart=//p' "$unit")
        eval "setsid $command >>$f/log 2>&1 </dev/null &"
        echo $! >"$f/active/$1"
        ;;
    esac
}

case $verb in
daemon-reload | reset-failed) ;;
restart | stop | start)
    for unit in "$@"; do
        case $unit in -*) continue ;; *.*) ;; *) unit=$unit.service ;; esac
        stop "$unit"
        [ "$verb" = stop ] || start "$unit"
    done
    ;;
show)
    properties=${1#--property=}
    for it in $(echo "$properties" | tr , ' '); do
        case $it in
        ActiveState)
            if is_alive "$2"; then value=active
            elif [ -e "$f/active/$2" ]; then value=failed
            else value=inactive
            fi ;;
        LoadState) value=$(cat $f/load 2>/dev/null || echo loaded) ;;
        MainPID) value=0 ;;
        NRestarts) value=0 ;;
        Environment) value=$(cat $f/environ 2>/dev/null) ;;
        *) value= ;;
        esac
        echo "$it=$value"
    done
    ;;
*)
    echo "systemctl of the tests: $verb $*" >&2
    exit 1
    ;;
esac
