"""Streams: what is cached of upstream, and what reads and watches it.

streams         all of them: which one answers, when one is opened, closed, evicted
stream          one: objects, window and cursor, its readers, and what moves it
fanout          what its readers see, and the delivery of events to watchers
list_encoder    the body of a list
seen_objects    objects read by name; lists that clients asked for once
stream_journal  a stream as records of the journal
scope_journal   streams restored, and what is known of scopes beside them
sweep           closes streams without readers, and deletes them later
"""
