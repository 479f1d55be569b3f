"""What the relay tells others about itself, besides its own endpoints."""
