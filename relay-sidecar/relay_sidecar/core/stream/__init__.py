"""One upstream list+watch, as pure machines.

reflection    list, watch, resume or relist: what to do next, as `commands`
paged_list    one list, page by page; list_decoder: decoded while it arrives
catch_up      whether an open watch has caught up
confirmation  when a watch is compared with a list, and how much of it
backoff       how long upstream is left alone after a failure
"""
