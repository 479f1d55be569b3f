"""The controller's shells: what it reads of the API server, and what it writes there.

api           every write, sent only while this process leads
collections   Nodes and PoolMembers as they are followed
policies      whether the admission policies are in force, without which nothing is done
events        Events on Nodes
controller    the loop: reports into the core, commands out of it
status        the /status document; metrics: what is measured
"""
