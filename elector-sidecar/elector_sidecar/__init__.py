"""The elector: contends for a Lease, and says over HTTP on localhost whether its main may act.

Start in `core`: its docstring has the path from an event of the Lease to `/readyz`. `elector` is
the pump that performs the commands of the cores. `wrapped` runs a program while this pod leads.
"""
