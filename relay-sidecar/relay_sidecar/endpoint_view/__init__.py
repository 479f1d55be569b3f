"""`--endpoint-view`: EndpointSlices by this node's own verdicts, as a stream of its own.

feature         the door: what the relay opens
view_api        the HTTP of the view
view_stream     follows upstream's EndpointSlices and the verdicts, and moves the view's stream
view_status     what /status and /metrics show
overlays        which endpoints are shown otherwise than upstream has them; pure
endpoint_slice  one EndpointSlice; pure
view_version    the versions of the view; pure
"""
