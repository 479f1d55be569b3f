"""HTTP: `worker_api.py` decides who answers what, `authentication.py` who may ask."""
