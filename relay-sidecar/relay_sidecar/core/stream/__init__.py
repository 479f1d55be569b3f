"""One upstream list+watch, as pure machines.

reflection    list, watch, resume or relist: what to do next, as `commands`; whether a watch has
              caught up
paged_list    one list, page by page; list_decoder: decoded while it arrives
confirmation  when a watch is compared with a list, and how much of it
backoff       how long upstream is left alone after a failure
"""
