"""Every claim about speed and cost, each beside its reference, measured in the same run.

runner     one benchmark from its options to its report; each is a `Bench` in NAME/bench.py
samples    what was measured (pure)          table      rows, judged and printed (pure)
target     what is to be reached (pure)      figures    numbers and columns (pure)
pace       waiting that Ctrl-C ends          process    memory and processor time of a process
progress   what is said meanwhile
"""
