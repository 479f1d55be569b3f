"""The directory /var/run/secrets/kubernetes.io/serviceaccount, made for the relay.

service_account       its files: ca.crt, token, namespace
loopback_certificate  the certificate behind that ca.crt
"""
