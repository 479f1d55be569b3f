"""EndpointSlices as this node's own verdicts on its neighbours have them; pure.

endpoint_slice  the endpoints of one slice, and its bytes with other conditions
overlays        which endpoints are shown otherwise than upstream has them, and when that changes
view_version    the resourceVersions of what is shown
"""
