"""HTTP of our processes: the one place of this package that knows aiohttp and the event loop.

aiohttp_web  the part of aiohttp that serves requests
listener     a socket, its connections, and how it is closed
places       who has the places of a listener, by the addresses that they come from
intake       what a connection may send before it has sent a request
inflow       how much of that all connections of a listener keep together
connections  clients that end their side after the request; who keeps a place
listener_metrics  what each listener holds, of how much
cross_site   refuses a POST that a web page may have sent
endpoints    what endpoints for people and machines have in common
"""
