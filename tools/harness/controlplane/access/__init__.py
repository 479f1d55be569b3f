"""Certificates, tokens, service accounts and Roles for tests."""
