"""What a learning job, its Dataset and its Models say in the API."""
