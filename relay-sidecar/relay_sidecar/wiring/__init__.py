"""The relay put together: before an upstream, or with `--origin local`."""
