"""Texts that several components read and write in one way each. Pure.

bearer   tokens of requests
rfc1123  names of objects, label keys and values
rfc3339  times
"""
