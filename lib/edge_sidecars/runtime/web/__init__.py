"""HTTP of our processes: the one place of this package that knows aiohttp and the event loop.

aiohttp_web  the part of aiohttp that serves requests
listener     a socket, its connections, and how it is left
places       how many connections are open or on their way
half_closed  clients that end their side after the request, and still want the answer
answers      what endpoints for people and machines have in common
"""
