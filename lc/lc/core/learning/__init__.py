"""Incremental and lifelong learning on the node that has the data. Pure.

objects     the job, its Dataset and Models, its triggers, as the API has them
metrics     what an evaluation says of two models, and by how much they differ
samples     which new samples are for training and which for evaluation; where they lie
events      what can happen to it
state       what LC remembers of a job, and its JSON
commands    what the shell is to do; each can be done again
next_command  one look at a job: what is to be done now, or how long nothing is
stages      what train, eval and deploy need in order to begin
outcome     what a worker's report means, and of which round it is
paths       where files of a round lie
"""
