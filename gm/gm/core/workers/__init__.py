"""Children: how their manifests are made, and how those that are become those that shall be."""
