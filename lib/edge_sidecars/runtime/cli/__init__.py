"""The command line: flags with env twins, sub-commands, and values out of their texts.

startup         the sub-command that is wanted, the import of its modules
program         a program, or a sub-command, from its arguments to its exit status
options         a component's options, each declared once; flags with env twins; the pod
parser          a command line whose failures are one line each
values          from texts to durations, sizes, addresses, URLs, or one line that says what is wrong
environment     variables that look like those of a program; `nearest` is the distance of two words
status_command  asks a process on this machine for its document, for people
completion      a script for the user's shell, made of the program's helps
rbac_manifest   Roles as YAML, of `rbac` sub-commands
probe           one GET of a process on this machine, from a new process that costs little; `livez`
"""
