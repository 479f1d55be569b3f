"""One list+watch of upstream per stream, persisted before it is delivered.

reflectors    the reflectors of all streams
reflector     one of them: performs what `core/stream/reflection.py` says, watches event by event,
              and says what a failure means
list_phase    a list, while it arrives
confirmer     lists beside the watch, which prove that it has caught up
stream_steps  what a stream takes in: persisted first, whole, one step after another
source        the requests for lists and watches
"""
