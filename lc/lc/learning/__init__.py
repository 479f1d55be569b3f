"""Learning jobs on this node: what `lc.core.learning` decides is done here.

learner    the manager of incremental and lifelong learning jobs: one pump each
pump       one job: asks the core what to do, does it, saves what follows
memory     what is remembered of a job, as it is on disk
tasks      files of rounds and models, here or remote
gathering  what is new in a dataset goes into the spool
spool      samples that wait for their round, in files of their own
files      whole files or none; long work in threads that can be told to stop
"""
