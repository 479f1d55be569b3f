"""Who may read through the relay what it keeps.

admission       what the web layer asks, and what it is told about whoever asks it
own             everybody acts with the relay's rights: on loopback
caller          each caller with the rights of its own token, which upstream decides about
access_reviews  how upstream is asked
"""
