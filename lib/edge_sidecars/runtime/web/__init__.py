"""HTTP of our processes: the one place of this package that knows aiohttp and the event loop.

aiohttp_import    aiohttp without the machine's certificate authorities
aiohttp_web       the part of aiohttp that serves requests
listener          a socket, its connections, and how it is closed
connection_limit  how many connections are open or on their way
half_closed       clients that end their side after the request, and still want the answer
endpoints         what endpoints for people and machines have in common
"""
