"""Real nodes behind relays: how soon all is back after a reboot without a cloud, and what a relay
costs while nothing happens."""
