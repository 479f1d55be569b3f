"""Texts that several components read and write in one way each. Pure.

bearer      tokens of requests
media_type  of a Content-Type
rfc1123     names of objects, label keys and values
rfc3339     times
yaml_text   YAML or JSON, as files of Kubernetes have it
"""
