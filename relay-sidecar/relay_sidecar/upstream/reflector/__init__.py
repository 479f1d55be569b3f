"""What moves a stream: one list+watch of upstream, persisted before it is delivered.

reflector     performs what `core/stream/reflection.py` says, watches event by event, and says what
              a failure means
confirmer     lists beside the watch, which prove that it has caught up
stream_steps  what a stream takes in: persisted first, whole, one step after another
source        the requests for lists and watches; the feed of one stream
turns         how many streams begin at a time
"""
