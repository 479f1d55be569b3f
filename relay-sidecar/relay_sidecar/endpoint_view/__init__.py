"""`--endpoint-view`: EndpointSlices by this node's own verdicts, as a stream of its own.

view_stream    follows upstream's EndpointSlices and the verdicts, and moves the stream of the view
view_control   how current that stream is, as its readers see it
"""
