"""HTTP of our processes: the one place of this package that knows aiohttp and the event loop.

aiohttp_web  the part of aiohttp that serves requests
listener     a socket, its connections, and how it is closed
connections  how many are open or on their way; clients that end their side after the request
endpoints    what endpoints for people and machines have in common
"""
