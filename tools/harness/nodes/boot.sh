#!/bin/sh
# What a machine has before its first process; then systemd. ROUTER: the way to everywhere.
set -eu
for it in /sys/fs/cgroup/*/; do mount -o remount,bind,rw "$it"; done
# The engine has it read-only.
umount /proc/sys
mount --make-rshared /
[ -e /dev/kmsg ] || mknod /dev/kmsg c 1 11
# For files as disks.
[ -e /dev/loop-control ] || mknod /dev/loop-control c 10 237
for it in 0 1 2 3 4 5 6 7; do [ -e "/dev/loop$it" ] || mknod "/dev/loop$it" b 7 "$it"; done
# Kubelet sets these for the whole machine that the container runs on: it finds them set.
mkdir -p /run/sysctl
while read -r name value; do
    file=/run/sysctl/$(echo "$name" | tr / _)
    echo "$value" >"$file"
    mount --bind "$file" "/proc/sys/$name"
done <<SETTINGS
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
vm/overcommit_memory 1
vm/panic_on_oom 0
SETTINGS
ip route replace default via "$ROUTER"
exec /lib/systemd/systemd --log-target=journal
