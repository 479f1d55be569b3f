"""HTTP: `worker_api.py` decides who answers what, the sockets are in `listener.py`."""
