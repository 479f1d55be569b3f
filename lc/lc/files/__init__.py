"""Files that jobs and datasets name: on the node, remote, and mounted MountedSecrets."""
