"""A program that runs only while its elector leads: `elector-sidecar run … -- PROGRAM`."""
