"""How the state of an object follows from its children: one file for each rule."""
