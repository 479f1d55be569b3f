"""`--endpoint-view`: EndpointSlices by this node's own verdicts, as a stream of its own.

feature        the door: what the relay opens
view_api       the HTTP of the view
view_stream    follows upstream's EndpointSlices and the verdicts, and moves the stream of the view
view_status    what /status and /metrics show
view_control   how current that stream is, as its readers see it
core           pure
"""
