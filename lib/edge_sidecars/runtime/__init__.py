"""What any of our processes needs before it does its work; knows no Kubernetes objects.

startup         the sub-command that is wanted, the import of its modules
options         a component's options, each declared once; flags with env twins; the pod
values          from texts to durations, sizes, addresses, URLs, or one line that says what is wrong
log             log lines of a constant message and key/value fields
clock           the clock that runs on through suspend; waiting for an event
backoff         the delay before a retry
metrics         Prometheus text
otel            the same over OTLP, and spans; imported only where they are wanted
process         signals, memory, descriptors, the version
status_command  asks a process on this machine for its document, for people
probe           one GET of a process on this machine, from a new process that costs little; `livez`
web             sockets and endpoints; all that knows an event loop
"""
