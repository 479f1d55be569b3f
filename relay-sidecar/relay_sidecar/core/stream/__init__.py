"""One upstream list+watch, as pure machines.

reflection  list, watch, resume or relist: what to do next, as `commands`; whether a watch has
            caught up: the one rule of `is_live`
lists       pages, decoded while they arrive; lists of names and versions alone
pace        when upstream is asked again after a failure, and when for a list beside a watch
"""
