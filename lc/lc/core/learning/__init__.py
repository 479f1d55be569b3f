"""Incremental and lifelong learning on the node that has the data. Pure.

job         one job as it stands in the API: what it wants, and its last conditions
trigger     when a stage is to begin: timer and condition
metrics     what an evaluation says of two models, and by how much they differ
model       models on the wire, and which one is of the right format and for the right device
samples     which new samples are for training and which for evaluation; where they lie
events      what can happen to it
state       what LC remembers of a job, and its JSON
commands    what the shell is to do; each can be done again
turn        one look at a job: what is to be done now, or how long nothing is
stages      what train, eval and deploy need in order to begin
outcome     what a worker's report means, and of which round it is
paths       where files of a round lie
"""
