"""What is handed out with a release, beside the images: every overlay as one file of YAML."""
