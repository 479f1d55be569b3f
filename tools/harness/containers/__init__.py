"""The images as containers: a Docker engine, networks, pods."""
