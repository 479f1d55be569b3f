"""`make images`: one Dockerfile for all components; `assemble` alone says what is in an image."""
