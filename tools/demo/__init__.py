"""`make demo`; `main.py` is a complete main container."""
