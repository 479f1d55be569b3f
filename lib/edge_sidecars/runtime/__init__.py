"""What any of our processes needs before it does its work; knows no Kubernetes objects.

cli             flags, sub-commands and their values
log             log lines of a constant message and key/value fields
clock           the clock that runs on through suspend; waiting for an event
backoff         the delay before a retry
daemon_thread   work that a disk may hang
formats         names, times and tokens as text
metrics         Prometheus text; `process_metrics` of the process itself
otel            the same over OTLP, and spans; imported only where they are wanted
process         signals, memory, descriptors
scarcity        what this process has run out of
tasks           tasks that are ended together
systemd         readiness and watchdog of a service
version         the number of this release
web             sockets and endpoints; all that knows an event loop
"""
