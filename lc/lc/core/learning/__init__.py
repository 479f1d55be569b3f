"""Incremental and lifelong learning on the node that has the data. Pure.

job           the job, its Dataset and Models, as the API has them
trigger       when a stage is to begin, and the numbers that are asked
fields        reading fields of JSON
samples       which new samples are for training and which for evaluation; where they lie
state         what LC remembers of a job, its JSON, and the events that change it
commands      what the shell is to do; each can be done again
next_command  one look at a job: what is to be done now, or how long nothing is
stages        what train, eval and deploy need in order to begin
outcome       what a worker's report means, and of which round it is
paths         where files of a round lie
"""
