"""What acts upon the store: members with the cores of the product, and candidates of client-go."""
