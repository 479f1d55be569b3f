"""Learning jobs on this node: what `lc.core.learning` decides is done here.

`learner.py` is the manager of incremental and lifelong learning jobs, with one `JobWorker` each,
which asks the core what to do, does it (`job_files.py`) and saves what follows (`job_state.py`).
"""
