"""LIST, GET and WATCH: from streams, or from upstream where these cannot answer."""
