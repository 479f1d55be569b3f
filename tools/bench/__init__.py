"""Every claim about speed and cost, each beside its reference, measured in the same run.

pace       waiting that Ctrl-C ends          process    memory and processor time of a process
figures    numbers and columns of a table    progress   what is said meanwhile
target     what is to be reached
"""
