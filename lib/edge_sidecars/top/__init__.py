"""`edge-sidecars top`: several components at a glance, in a terminal or on one page.

top_command       its flags
followed          the status documents of components, each kept up to date by its own page's stream
terminal          draws them with rich, an optional package (extra `top`)
component_panels  what is drawn of each kind of component
panels            what these drawings are made of
combined_page     serves them as one page on loopback; needs no rich

It knows the documents of components as their pages do, and imports no component.
"""
