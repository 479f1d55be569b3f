"""What any of our processes needs before it does its work; knows no Kubernetes.

values          from texts to durations, sizes, addresses, URLs, or one line that says what is wrong
flags           a command line of flags with env twins
log             log lines of a constant message and key/value fields
backoff         delays between attempts: exponential, jitter, a cap
clock           the clock that runs on through suspend
metrics         Prometheus text
data_files      a database's files: private, locked, set aside
startup         signals and garbage until a process is what it is to be
process         signals, memory, descriptors
status_command  asks a process on this machine for its document, for people
web             sockets and answers; all that knows an event loop
probe           one GET of a process on this machine, from a new process that costs little
livez_command   asks a process on this machine whether it lives: the images' health check
"""
